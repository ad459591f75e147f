/* GZIP payloads whose bytes are stored, not compressed (RFC 1952; RFC 1951, section 3.2.4).

       member:   header | blocks | crc uint32 | opened size uint32                                (little-endian)
       block:    bit 0: it is the last of its member; bits 1-2: 0 | length uint16 | ~length uint16 | bytes
       or:       03 00, a last block that opens to nothing

   Such a payload opens to fewer bytes than it has. */

#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_messages.h"

enum {
    GZIP_HEADER_BYTES = 10, /* before the fields that a header may have */
    GZIP_TRAILER_BYTES = 8,
    GZIP_DEFLATE = 8, /* the method */
    GZIP_HEADER_CRC = 0x02,
    GZIP_EXTRA = 0x04,
    GZIP_NAME = 0x08,
    GZIP_COMMENT = 0x10,
    GZIP_RESERVED = 0xE0,
    STORED_HEAD_BYTES = 5,
    STORED_IS_LAST = 0x01,
    STORED_TYPE = 0x06 /* these bits are 0 */
};

static inline Py_ssize_t
little_endian_16(const unsigned char *at)
{
    return at[0] | at[1] << 8;
}

/* Return where the header of a member ends that begins there; -1 where none stands. */
static Py_ssize_t
gzip_header_end(const unsigned char *data, Py_ssize_t start, Py_ssize_t size)
{
    const unsigned char *head = data + start;
    if (size - start < GZIP_HEADER_BYTES || head[0] != 0x1F || head[1] != 0x8B || head[2] != GZIP_DEFLATE ||
        head[3] & GZIP_RESERVED) {
        return -1;
    }
    unsigned char flags = head[3];
    Py_ssize_t at = start + GZIP_HEADER_BYTES;
    if (flags & GZIP_EXTRA) {
        if (size - at < 2) {
            return -1;
        }
        at += 2 + little_endian_16(data + at);
        if (at > size) {
            return -1;
        }
    }
    for (int text = GZIP_NAME; text <= GZIP_COMMENT; text <<= 1) {
        if (flags & text) {
            const unsigned char *zero = memchr(data + at, 0, (size_t)(size - at));
            if (zero == NULL) {
                return -1;
            }
            at = zero - data + 1;
        }
    }
    if (flags & GZIP_HEADER_CRC) {
        if (size - at < 2 || (crc32_of(head, (size_t)(at - start)) & 0xFFFF) != little_endian_16(data + at)) {
            return -1;
        }
        at += 2;
    }
    return at;
}

/* Return to how many bytes a payload opens, and write them to `opened`, if that is not NULL, after which their CRCs are
   checked. -1 if they are more than `most`, or if the payload has anything else than good members of stored blocks. */
static Py_ssize_t
open_stored(const unsigned char *data, Py_ssize_t size, unsigned char *opened, Py_ssize_t most)
{
    Py_ssize_t at = 0, total = 0;
    if (most < 0) {
        return -1;
    }
    do {
        Py_ssize_t start = total;
        int is_last;
        at = gzip_header_end(data, at, size);
        if (at < 0) {
            return -1;
        }
        do {
            if (size - at >= 2 && data[at] == 0x03 && data[at + 1] == 0x00) {
                at += 2;
                break;
            }
            if (size - at < STORED_HEAD_BYTES || data[at] & STORED_TYPE) {
                return -1;
            }
            is_last = data[at] & STORED_IS_LAST;
            Py_ssize_t length = little_endian_16(data + at + 1);
            at += STORED_HEAD_BYTES;
            /* `most` is looked at each time, as another thread may write to the data between two calls. */
            if ((length ^ little_endian_16(data + at - 2)) != 0xFFFF || length > size - at || length > most - total) {
                return -1;
            }
            if (opened != NULL) {
                memcpy(opened + total, data + at, (size_t)length);
            }
            at += length;
            total += length;
        } while (!is_last);
        if (size - at < GZIP_TRAILER_BYTES || little_endian(data + at + 4) != (uint32_t)(total - start)) {
            return -1;
        }
        if (opened != NULL && crc32_of(opened + start, (size_t)(total - start)) != little_endian(data + at)) {
            return -1;
        }
        at += GZIP_TRAILER_BYTES;
    } while (at < size);
    return total;
}
