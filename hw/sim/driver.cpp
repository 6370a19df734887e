// Clocks a whole machine: Python asks for a register or for many cycles, and sleeps meanwhile.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "ram.h"
#include "verilated_sym_props.h"
#include "verilated_syms.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

extern "C" void ram_use(Ram *);

static const int PATIENCE = 1000;  // cycles for a register to answer
static const auto SLICE = std::chrono::milliseconds(50);  // until Python looks for Ctrl-C
static const int GLANCE = 256;                            // cycles between looks at the clock

// In a checked model, what nothing sets starts at random.
static VerilatedContext *prepared(VerilatedContext &context) {
    context.randReset(2);
    context.fatalOnError(false);  // an assertion ends the run, not Python
    return &context;
}

struct Model {
    VerilatedContext context;
    Vtop top{prepared(context)};
    uint64_t cycle = 0;  // since the model was made
    std::vector<const uint32_t *> instructions;  // the first counter of each unit
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> waves;
    uint64_t first = 0, end = 0;
#endif
};

// Verilator and the memory keep what they work on in variables of the thread.
static void use(Model &model, Ram *ram) {
    Verilated::threadContextp(&model.context);
    ram_use(ram);
}

static void dump(Model &model, int half) {
#if VM_TRACE
    if (model.waves && model.cycle >= model.first && model.cycle < model.end)
        model.waves->dump(2 * model.cycle + half);
#endif
}

static void clock(Model &model) {
    model.top.clk = 1;
    model.top.eval();
    dump(model, 0);
    model.top.clk = 0;
    model.top.eval();
    dump(model, 1);
    ++model.cycle;
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Model *model_new() {
    Model *model = new Model;
    for (const auto &scope : *model->context.scopeNameMap())
        if (const VerilatedVar *counter = scope.second->varFind("counts"))
            model->instructions.push_back(static_cast<const uint32_t *>(counter->datap()));
    return model;
}

EXPORT void model_delete(Model *model) {
    Verilated::threadContextp(&model->context);
    model->top.final();
#if VM_TRACE
    if (model->waves) model->waves->close();
#endif
    delete model;
}

// Record waves below a scope, of cycles first <= cycle < end. Returns 0 if the file cannot be made.
EXPORT int model_waves(Model *model, const char *path, const char *scope, uint64_t first,
                       uint64_t end) {
#if VM_TRACE
    model->context.traceEverOn(true);
    model->waves = std::make_unique<VerilatedVcdC>();
    if (*scope) model->waves->dumpvars(99, std::string("TOP.") + scope);
    model->top.trace(model->waves.get(), 99);
    model->waves->open(path);
    model->first = first;
    model->end = end;
    return model->waves->isOpen();
#else
    return 0;
#endif
}

EXPORT void model_reset(Model *model, Ram *ram) {
    Vtop &top = model->top;
    use(*model, ram);
    top.host_awvalid = top.host_wvalid = top.host_bready = 0;
    top.host_arvalid = top.host_rready = 0;
    top.rst = 1;
    for (int cycle = 0; cycle < 4; ++cycle) clock(*model);
    top.rst = 0;
    for (int cycle = 0; cycle < 4; ++cycle) clock(*model);
}

EXPORT int model_failed(Model *model) {
    return model->context.gotError() || model->context.gotFinish();
}

// Run until the interrupt, for so many cycles, or for a slice of time; return how many it were.
EXPORT uint64_t model_run(Model *model, Ram *ram, uint64_t cycles) {
    const auto end = std::chrono::steady_clock::now() + SLICE;
    use(*model, ram);
    uint64_t done = 0;
    while (done < cycles && !model->top.finished) {
        clock(*model);
        if (++done % GLANCE == 0)
            if (model_failed(model) || std::chrono::steady_clock::now() >= end) break;
    }
    return done;
}

// Instructions that the units have taken since the run began.
EXPORT uint64_t model_instructions(Model *model) {
    uint64_t sum = 0;
    for (const uint32_t *counter : model->instructions) sum += *counter;
    return sum;
}

EXPORT int model_interrupt(Model *model) { return model->top.finished; }

// Transfers on AXI4-Lite; both return its response, or -1 where none comes.
EXPORT int model_write(Model *model, Ram *ram, uint32_t address, uint32_t value) {
    Vtop &top = model->top;
    use(*model, ram);
    top.host_awaddr = address;
    top.host_wdata = value;
    top.host_wstrb = 15;
    top.host_awvalid = top.host_wvalid = top.host_bready = 1;
    top.eval();
    for (int cycle = 0; !top.host_bvalid; ++cycle) {
        if (cycle == PATIENCE) return -1;
        const bool address_taken = top.host_awready, data_taken = top.host_wready;
        clock(*model);
        if (address_taken) top.host_awvalid = 0;
        if (data_taken) top.host_wvalid = 0;
        top.eval();
    }
    const int response = top.host_bresp;
    clock(*model);
    top.host_bready = 0;
    return response;
}

EXPORT int model_read(Model *model, Ram *ram, uint32_t address, uint32_t *value) {
    Vtop &top = model->top;
    use(*model, ram);
    top.host_araddr = address;
    top.host_arvalid = top.host_rready = 1;
    top.eval();
    for (int cycle = 0; !top.host_rvalid; ++cycle) {
        if (cycle == PATIENCE) return -1;
        const bool taken = top.host_arready;
        clock(*model);
        if (taken) top.host_arvalid = 0;
        top.eval();
    }
    *value = top.host_rdata;
    const int response = top.host_rresp;
    clock(*model);
    top.host_rready = 0;
    return response;
}
