// A simulated memory; the same structure is in hw/sim/machine.py.
#pragma once
#include <cstdint>

struct Ram {
    uint8_t *bytes;
    uint64_t words;
    uint64_t error_first, error_end;  // words whose access is answered with SLVERR
    int32_t seed;                     // of random stalls; 0: none
    int32_t latency;                  // cycles from request to answer, at least
};
