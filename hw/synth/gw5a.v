// Cells of a GW5A that `synth_gowin` does not make, or that nextpnr has no delays of.

// A product of signed numbers; half of a block.
module \$__MUL12X12 (input [11:0] A, input [11:0] B, output [23:0] Y);
    parameter A_SIGNED = 1;
    parameter B_SIGNED = 1;
    parameter A_WIDTH = 12;
    parameter B_WIDTH = 12;
    parameter Y_WIDTH = 24;
    MULT12X12 _TECHMAP_REPLACE_ (
        .A(A), .B(B), .DOUT(Y), .CLK(2'b0), .CE(2'b0), .RESET(2'b0)
    );
endmodule

// The same from a whole block, whose adder passes the product on.
module \$__MUL27X18 (input [26:0] A, input [17:0] B, output [44:0] Y);
    parameter A_SIGNED = 1;
    parameter B_SIGNED = 1;
    parameter A_WIDTH = 27;
    parameter B_WIDTH = 18;
    parameter Y_WIDTH = 45;
    wire [2:0] sign;
    MULTALU27X18 #(.C_SEL(1'b0)) _TECHMAP_REPLACE_ (
        .A(A), .B(B), .DOUT({sign, Y}), .SIA(27'b0), .C(48'b0), .D(26'b0), .CASI(48'b0),
        .ACCSEL(1'b0), .PSEL(1'b0), .ASEL(1'b0), .PADDSUB(1'b0), .CSEL(1'b0), .CASISEL(1'b0),
        .ADDSUB(2'b0), .CLK(2'b0), .CE(2'b0), .RESET(2'b0)
    );
endmodule

// nextpnr knows how long a LUT4 takes, and nothing of smaller ones.
module LUT1 (output F, input I0);
    parameter [1:0] INIT = 0;
    LUT4 #(.INIT({8{INIT}})) _TECHMAP_REPLACE_ (.F(F), .I0(I0));
endmodule

module LUT2 (output F, input I0, input I1);
    parameter [3:0] INIT = 0;
    LUT4 #(.INIT({4{INIT}})) _TECHMAP_REPLACE_ (.F(F), .I0(I0), .I1(I1));
endmodule

module LUT3 (output F, input I0, input I1, input I2);
    parameter [7:0] INIT = 0;
    LUT4 #(.INIT({2{INIT}})) _TECHMAP_REPLACE_ (.F(F), .I0(I0), .I1(I1), .I2(I2));
endmodule
