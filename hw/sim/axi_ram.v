// Simulated memory behind one AXI4 port: 256 bits of data, INCR bursts, answers in order, up to
// 16 requests of each direction at once. The words lie in C++ (ram.cpp); every port of a machine
// sees the same ones. Reads see memory when their data leave, writes take effect with their data.
//
// How it behaves is taken from C++ at reset. With a seed, a channel stands still in a quarter of the
// cycles and an answer comes up to 31 cycles later than it could.
module axi_ram #(
    parameter ADDRESS_BITS = 32,
    parameter PORT = 0
) (
    input clk,
    input rst,
    input [ADDRESS_BITS-1:0] awaddr, input [7:0] awlen, input awvalid, output awready,
    input [255:0] wdata, input [31:0] wstrb, input wlast, input wvalid, output wready,
    output [1:0] bresp, output reg bvalid, input bready,
    input [ADDRESS_BITS-1:0] araddr, input [7:0] arlen, input arvalid, output arready,
    output reg [255:0] rdata, output reg [1:0] rresp, output reg rlast, output reg rvalid,
    input rready
);
    import "DPI-C" function byte ram_read(input longint word, output bit [255:0] data);
    import "DPI-C" function byte ram_write(input longint word, input bit [255:0] data,
                                           input int strobe);
    import "DPI-C" function int ram_seed();
    import "DPI-C" function int ram_latency();

    localparam PLACES = 16;
    localparam [1:0] OKAY = 0, SLVERR = 2;

    reg [31:0] now, latency, random;
    reg stalls;
    // Bits of every draw: five channels that may move, then how much later an answer is.
    wire [4:0] allow = stalls ? random[12:8] | {5{random[7]}} : 5'h1f;
    wire [31:0] due = now + latency + (stalls ? 32'(random[20:16]) : 0);
    always @(posedge clk) begin
        now <= rst ? 0 : now + 1;
        if (rst) begin : settings
            int seed;
            seed = ram_seed();
            latency <= ram_latency();
            stalls <= seed != 0;
            // No port has the stalls of another one.
            random <= (32'(seed) * 32'd2654435761 + 32'(PORT) * 32'd40503) | 1;
        end else begin : xorshift
            reg [31:0] x;
            x = random ^ (random << 13);
            x = x ^ (x >> 17);
            random <= x ^ (x << 5);
        end
    end

    // Requests wait in rings for the latency of memory.
    reg [63:0] ar_word [0:PLACES-1];
    reg [8:0] ar_beats [0:PLACES-1];
    reg [31:0] ar_due [0:PLACES-1];
    reg [4:0] ar_head, ar_tail;
    reg [8:0] r_beat;
    wire r_ready = ar_head != ar_tail && !(32'(now - ar_due[ar_head[3:0]]) >> 31);
    wire r_last = r_beat + 1 == ar_beats[ar_head[3:0]];
    assign arready = 5'(ar_tail - ar_head) != PLACES && allow[0];
    always @(posedge clk)
        if (rst) begin
            ar_head <= 0;
            ar_tail <= 0;
            r_beat <= 0;
            rvalid <= 0;
        end else begin
            if (arvalid && arready) begin
                ar_word[ar_tail[3:0]] <= 64'(araddr) >> 5;
                ar_beats[ar_tail[3:0]] <= 9'(arlen) + 1;
                ar_due[ar_tail[3:0]] <= due;
                ar_tail <= ar_tail + 1;
            end
            if (!rvalid || rready) begin
                rvalid <= r_ready && allow[1];
                if (r_ready && allow[1]) begin : answer
                    bit [255:0] data;
                    rresp <= ram_read(ar_word[ar_head[3:0]] + 64'(r_beat), data) != 0 ? SLVERR : OKAY;
                    rdata <= data;
                    rlast <= r_last;
                    r_beat <= r_last ? 0 : r_beat + 1;
                    if (r_last) ar_head <= ar_head + 1;
                end
            end
        end

    reg [63:0] aw_word [0:PLACES-1];
    reg [7:0] aw_len [0:PLACES-1];
    reg [4:0] aw_head, aw_tail;
    reg [8:0] w_beat;
    reg w_failed;
    reg b_failed [0:PLACES-1];
    reg [31:0] b_due [0:PLACES-1];
    reg [4:0] b_head, b_tail;
    reg b_bad;
    wire b_ready = b_head != b_tail && !(32'(now - b_due[b_head[3:0]]) >> 31);
    assign awready = 5'(aw_tail - aw_head) != PLACES && allow[2];
    assign wready = aw_head != aw_tail && 5'(b_tail - b_head) != PLACES && allow[3];
    assign bresp = b_bad ? SLVERR : OKAY;
    always @(posedge clk)
        if (rst) begin
            aw_head <= 0;
            aw_tail <= 0;
            w_beat <= 0;
            w_failed <= 0;
            b_head <= 0;
            b_tail <= 0;
            bvalid <= 0;
        end else begin
            if (awvalid && awready) begin
                aw_word[aw_tail[3:0]] <= 64'(awaddr) >> 5;
                aw_len[aw_tail[3:0]] <= awlen;
                aw_tail <= aw_tail + 1;
            end
            if (wvalid && wready) begin : store
                reg failed;
                failed = ram_write(aw_word[aw_head[3:0]] + 64'(w_beat), wdata, wstrb) != 0;
                w_failed <= wlast ? 0 : w_failed | failed;
                w_beat <= wlast ? 0 : w_beat + 1;
                if (wlast) begin
                    aw_head <= aw_head + 1;
                    b_failed[b_tail[3:0]] <= w_failed | failed;
                    b_due[b_tail[3:0]] <= due;
                    b_tail <= b_tail + 1;
                end
            end
            if (!bvalid || bready) begin
                bvalid <= b_ready && allow[4];
                if (b_ready && allow[4]) begin
                    b_bad <= b_failed[b_head[3:0]];
                    b_head <= b_head + 1;
                end
            end
        end

    // What AXI4 asks of an initiator: requests stay until they are taken, bursts keep to their length
    // and to 4 KiB.
    reg ar_waited, aw_waited, w_waited;
    reg [ADDRESS_BITS-1:0] ar_old, aw_old;
    reg [7:0] ar_old_len, aw_old_len;
    reg [288:0] w_old;
    always @(posedge clk) begin
        ar_waited <= !rst && arvalid && !arready;
        aw_waited <= !rst && awvalid && !awready;
        w_waited <= !rst && wvalid && !wready;
        {ar_old, ar_old_len} <= {araddr, arlen};
        {aw_old, aw_old_len} <= {awaddr, awlen};
        w_old <= {wlast, wstrb, wdata};
        if (!rst) begin
            if (ar_waited) assert (arvalid && {araddr, arlen} == {ar_old, ar_old_len});
            if (aw_waited) assert (awvalid && {awaddr, awlen} == {aw_old, aw_old_len});
            if (w_waited) assert (wvalid && {wlast, wstrb, wdata} == w_old);
            if (arvalid) assert (13'(araddr[11:5]) + 13'(arlen) < 128);
            if (awvalid) assert (13'(awaddr[11:5]) + 13'(awlen) < 128);
            if (wvalid && wready) assert (wlast == (w_beat == 9'(aw_len[aw_head[3:0]])));
        end
    end
endmodule
