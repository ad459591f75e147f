/* Uncompressed messages, and their CRCs.

       length int32 | magic int8 = 1 | attributes int8, bits 0-1 clear | crc uint32 | payload        (big-endian)
       length int32 | magic int8 = 0 | crc uint32 | payload
*/

#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_lengths.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_CLMUL 1
#include <immintrin.h>
#endif

enum {
    CRC_BYTES = 4,      /* the last ones before the payload */
    OVERHEAD_BYTES = 9, /* before the payload, with magic 0; magic 1 has one more, the attributes */
    CODEC_MASK = 0x03
};

/* ---- CRC-32 (IEEE 802.3, reflected), as zlib computes it; states are inverted sums */

static uint32_t crc_table[8][256];

static inline void
fill_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
        }
        crc_table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int row = 1; row < 8; row++) {
            uint32_t before = crc_table[row - 1][byte];
            crc_table[row][byte] = (before >> 8) ^ crc_table[0][before & 0xFF];
        }
    }
}

static inline uint32_t
little_endian(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Eight bytes a step, by a table for each of them ("slicing by 8"). */
static uint32_t
crc_by_table(uint32_t state, const unsigned char *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = state ^ little_endian(at), high = little_endian(at + 4);
        state = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^ crc_table[5][low >> 16 & 0xFF] ^
                crc_table[4][low >> 24] ^ crc_table[3][high & 0xFF] ^ crc_table[2][high >> 8 & 0xFF] ^
                crc_table[1][high >> 16 & 0xFF] ^ crc_table[0][high >> 24];
    }
    for (; size; at++, size--) {
        state = (state >> 8) ^ crc_table[0][(state ^ *at) & 0xFF];
    }
    return state;
}

#ifdef HAVE_CLMUL

/* By carry-less multiplication: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
   Instruction" (Intel, 2009). 128 bits of state are moved past the next 16 (or 64) bytes by multiplying each half
   with x^n mod P. The factors are those powers, bit-reflected and shifted left by one. */

#define CLMUL __attribute__((target("pclmul,sse4.1,ssse3")))

/* For pshufb: a load from `16 - n` on shifts by n bytes towards the end, one from `16 + n` on towards the start. */
static const unsigned char shuffle[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

CLMUL static inline __m128i
load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

CLMUL static inline __m128i
fold(__m128i state, __m128i factors, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(state, factors, 0x00);
    __m128i high = _mm_clmulepi64_si128(state, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

#define BY_16 _mm_set_epi64x(0x0CCAA009E, 0x1751997D0) /* x^(128-32), x^(128+32) */

/* What is left of a sum: from a state that stands for all before `at`. */
CLMUL static uint32_t
rest_by_clmul(__m128i a, const unsigned char *at, size_t size)
{
    const __m128i by_16 = BY_16;
    const __m128i by_8 = _mm_set_epi64x(0, 0x163CD6124);              /* x^64 */
    const __m128i barrett = _mm_set_epi64x(0x1F7011641, 0x1DB710641); /* x^64 / P, P */
    const __m128i low_halves = _mm_set_epi32(0, -1, 0, -1);

    for (; size >= 16; at += 16, size -= 16) {
        a = fold(a, by_16, load(at));
    }
    if (size) { /* The state and what is left are 32 bytes, with zeros before them, which change nothing. */
        __m128i towards_start = load(shuffle + 16 + size);
        __m128i first = _mm_shuffle_epi8(a, load(shuffle + size));
        __m128i rest = _mm_shuffle_epi8(a, towards_start);
        __m128i last = _mm_blendv_epi8(rest, load(at + size - 16), towards_start);
        a = fold(first, by_16, last);
    }
    /* From 128 bits to 64, and by Barrett's reduction to 32. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low_halves), by_8, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(a, low_halves), barrett, 0x10);
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, product), 1);
}

/* For 16 bytes and more. */
CLMUL static uint32_t
crc_by_clmul(uint32_t state, const unsigned char *at, size_t size)
{
    const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4); /* x^(512-32), x^(512+32) */
    const __m128i by_16 = BY_16;
    __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128((int)state));

    if (size < 64) {
        return rest_by_clmul(a, at + 16, size - 16);
    }
    __m128i b = load(at + 16), c = load(at + 32), d = load(at + 48);
    for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
        a = fold(a, by_64, load(at));
        b = fold(b, by_64, load(at + 16));
        c = fold(c, by_64, load(at + 32));
        d = fold(d, by_64, load(at + 48));
    }
    return rest_by_clmul(fold(fold(fold(a, by_16, b), by_16, c), by_16, d), at, size);
}

/* The same with two states in each register, as newer processors have it: for WIDE_FROM_BYTES and more. */
#define WIDE __attribute__((target("vpclmulqdq,avx2,pclmul,sse4.1,ssse3")))

enum { WIDE_FROM_BYTES = 512 };

WIDE static inline __m256i
load_wide(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

WIDE static inline __m256i
fold_wide(__m256i states, __m256i factors, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(states, factors, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(states, factors, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

WIDE static uint32_t
crc_by_wide_clmul(uint32_t state, const unsigned char *at, size_t size)
{
    const __m256i by_128 = _mm256_set_epi64x(0x14A7FE880, 0x1E88EF372, 0x14A7FE880, 0x1E88EF372); /* x^(1024-+32) */
    const __m128i by_16 = BY_16;
    __m256i states[4];
    states[0] = _mm256_xor_si256(load_wide(at), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)state)));
    for (int i = 1; i < 4; i++) {
        states[i] = load_wide(at + 32 * i);
    }
    for (at += 128, size -= 128; size >= 128; at += 128, size -= 128) {
        for (int i = 0; i < 4; i++) {
            states[i] = fold_wide(states[i], by_128, load_wide(at + 32 * i));
        }
    }
    __m128i a = _mm256_castsi256_si128(states[0]);
    a = fold(a, by_16, _mm256_extracti128_si256(states[0], 1));
    for (int i = 1; i < 4; i++) {
        a = fold(a, by_16, _mm256_castsi256_si128(states[i]));
        a = fold(a, by_16, _mm256_extracti128_si256(states[i], 1));
    }
    return rest_by_clmul(a, at, size);
}

static int has_clmul, has_wide_clmul;

#endif

/* Return the sum of bytes behind others, of which it is given the sum: 0 of none. */
static inline uint32_t
crc32_after(uint32_t sum, const unsigned char *at, size_t size)
{
#ifdef HAVE_CLMUL
    if (has_wide_clmul && size >= WIDE_FROM_BYTES) {
        return ~crc_by_wide_clmul(~sum, at, size);
    }
    if (has_clmul && size >= 16) {
        return ~crc_by_clmul(~sum, at, size);
    }
#endif
    return ~crc_by_table(~sum, at, size);
}

static inline uint32_t
crc32_of(const unsigned char *at, size_t size)
{
    return crc32_after(0, at, size);
}

/* Before any of this is used: fill the table, and say whether the processor does without it. */
static inline int
prepare_crc(void)
{
    fill_crc_table();
#ifdef HAVE_CLMUL
    __builtin_cpu_init();
    has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    has_wide_clmul = has_clmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
    return has_clmul;
#else
    return 0;
#endif
}

static inline PyObject *
crc_of_object(PyObject *object, int by_table)
{
    Py_buffer data;
    if (PyObject_GetBuffer(object, &data, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t crc = by_table ? ~crc_by_table(~0u, data.buf, (size_t)data.len) : crc32_of(data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

/* ---- messages */

static inline void
put_big_endian(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

typedef struct {
    Py_ssize_t overhead, payload; /* bytes */
} Sizes;

/* Return the sizes of a message whose header says so. */
static inline Sizes
sizes_of(uint32_t length, unsigned char magic)
{
    Py_ssize_t overhead = OVERHEAD_BYTES + magic;
    return (Sizes){overhead, LENGTH_BYTES + (Py_ssize_t)length - overhead};
}

/* Return the sizes of the uncompressed message that stands there, whatever its CRC; an overhead of 0 if none does. */
static inline Sizes
uncompressed_sizes(const unsigned char *at, Py_ssize_t left)
{
    const Sizes none = {0, 0};
    if (left < OVERHEAD_BYTES) {
        return none;
    }
    uint32_t length = big_endian(at); /* read once, as the next one: another thread may write to a bytearray */
    unsigned char magic = at[4];
    if (magic > 1 || (magic == 1 && at[5] & CODEC_MASK)) {
        return none;
    }
    if (length > INT32_MAX || (Py_ssize_t)length > left - LENGTH_BYTES) {
        return none;
    }
    Sizes found = sizes_of(length, magic);
    return found.payload < 0 ? none : found;
}

/* The same of one whose CRC is right. */
static inline Sizes
uncompressed_message(const unsigned char *at, Py_ssize_t left)
{
    const Sizes none = {0, 0};
    Sizes found = uncompressed_sizes(at, left);
    if (!found.overhead) {
        return none;
    }
    const unsigned char *payload = at + found.overhead;
    return crc32_of(payload, (size_t)found.payload) == big_endian(payload - CRC_BYTES) ? found : none;
}

typedef struct {
    Py_ssize_t end, messages, largest, payload_bytes;
} Run;

/* Extend a run until `max_messages` (below 0: no limit), or until a message would not start before `stop`. */
static inline void
extend(Run *run, const unsigned char *data, Py_ssize_t size, Py_ssize_t stop, Py_ssize_t max_messages)
{
    while (run->end < stop && run->messages != max_messages) {
        Sizes found = uncompressed_message(data + run->end, size - run->end);
        if (!found.overhead) {
            break;
        }
        run->end += found.overhead + found.payload;
        run->messages++;
        run->payload_bytes += found.payload;
        if (found.payload > run->largest) {
            run->largest = found.payload;
        }
    }
}
