/* How far whole messages reach, going by the length before each. */

#include <Python.h>

#include <stdint.h>

enum {
    LENGTH_BYTES = 4,
    MIN_LENGTH = 5 /* of any message: an empty one of magic 0 */
};

static inline uint32_t
big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Return how many bytes whole messages take, as runs_python.py's function of that name. */
static inline Py_ssize_t
complete_prefix_bytes(const unsigned char *data, Py_ssize_t size)
{
    Py_ssize_t position = 0;
    while (size - position >= LENGTH_BYTES) {
        uint32_t length = big_endian(data + position);
        if (length < MIN_LENGTH || length > INT32_MAX || (Py_ssize_t)length > size - position - LENGTH_BYTES) {
            break;
        }
        position += LENGTH_BYTES + (Py_ssize_t)length;
    }
    return position;
}
