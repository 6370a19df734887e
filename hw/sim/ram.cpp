// The words of the simulated memory, and how it behaves. `ram_use` says which one is meant.
#include <cstdint>
#include <cstring>

#include "ram.h"

static Ram empty = {nullptr, 0, 0, 0, 0, 0};
static thread_local Ram *ram = &empty;

extern "C" {

__attribute__((visibility("default"))) void ram_use(Ram *used) { ram = used; }

static bool bad(uint64_t word) {
    return word >= ram->words || (word >= ram->error_first && word < ram->error_end);
}

// 256-bit vectors are eight 32-bit words, lowest first, which on a little-endian host are the
// bytes of memory.
char ram_read(long long word, uint32_t *data) {
    if (bad(word)) {
        memset(data, 0xff, 32);
        return 1;
    }
    memcpy(data, ram->bytes + 32 * word, 32);
    return 0;
}

char ram_write(long long word, const uint32_t *data, int strobe) {
    if (bad(word)) return 1;
    const uint8_t *from = reinterpret_cast<const uint8_t *>(data);
    uint8_t *to = ram->bytes + 32 * word;
    if (static_cast<uint32_t>(strobe) == 0xffffffffu) {
        memcpy(to, from, 32);
        return 0;
    }
    for (int byte = 0; byte < 32; ++byte)
        if (static_cast<uint32_t>(strobe) >> byte & 1) to[byte] = from[byte];
    return 0;
}

int ram_seed() { return ram->seed; }
int ram_latency() { return ram->latency; }
}
