// Bytes to and from the serial pins of a model: what a USB adapter does, bit by bit.
#include <cstdint>
#include <memory>

#include "Vtop.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

static const int BITS = 10;

struct Model {
    VerilatedContext context;
    Vtop top{&context};
    int divisor;
    int out_left = 0, out_wait = 0;  // to the model
    int in_left = 0, in_wait = 0;    // from the model
    uint32_t out_bits = 0, in_bits = 0;
    uint64_t idle = 0;  // cycles since the model's line last moved
};

EXPORT Model *serial_new(int divisor) {
    Model *model = new Model;
    model->divisor = divisor;
    model->top.rst = 0;
    model->top.receive = 1;
    return model;
}

EXPORT void serial_delete(Model *model) {
    model->top.final();
    delete model;
}

// Clock until `cycles` have passed, or the model has said something and is silent again. Takes
// bytes from `in`, leaves at most `room` in `out`, and returns the cycles.
EXPORT uint64_t serial_run(Model *model, uint64_t cycles, const uint8_t *in, uint32_t count,
                           uint32_t *taken, uint8_t *out, uint32_t room, uint32_t *got) {
    Vtop &top = model->top;
    *taken = *got = 0;
    const uint64_t silence = 3ull * BITS * model->divisor;
    uint64_t done = 0;
    while (done < cycles && *got < room && !(*got && model->idle > silence)) {
        if (!model->out_left && *taken < count) {
            model->out_bits = in[(*taken)++] << 1 | 1 << (BITS - 1);
            model->out_left = BITS;
            model->out_wait = model->divisor;
        }
        top.receive = model->out_left ? model->out_bits & 1 : 1;
        if (model->out_left && !--model->out_wait) {
            model->out_bits >>= 1;
            model->out_wait = model->divisor;
            --model->out_left;
        }
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        ++done;
        const int line = top.transmit;
        model->idle = line && !model->in_left ? model->idle + 1 : 0;
        if (!model->in_left) {
            if (!line) {
                model->in_left = BITS;
                model->in_wait = model->divisor / 2;
            }
        } else if (!--model->in_wait) {
            model->in_bits = model->in_bits >> 1 | line << (BITS - 1);
            model->in_wait = model->divisor;
            if (!--model->in_left && line) out[(*got)++] = model->in_bits >> 1;
        }
    }
    return done;
}
