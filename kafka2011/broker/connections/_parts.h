/* Answers on their way to a socket that does not block: bytes, and pieces of files by sendfile(2). What both modules
   need that send them, one in the event loop and one in threads: each is built by itself. */

#include <Python.h>

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same for every architecture, as all that came this late */
#endif

enum { MOST_PARTS = 64, FILE_ENDED = -1, NOT_IN_MEMORY = -2 };

typedef struct {
    const char *head;
    Py_ssize_t head_bytes;
    int fd;
    off_t position;
    Py_ssize_t size;
} Part;

/* Say whether a page of a file can be read without waiting. Where that cannot be told, it can. */
static int
page_is_there(int fd, off_t position)
{
    char byte;
    struct iovec into = {&byte, 1};
    return preadv2(fd, &into, 1, position, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

/* Say whether a piece of a file is in memory, or sending it would wait for the disk. Linux 6.5 and later count its
   pages, without touching any; before, its ends have to do. */
static int
is_there(int fd, off_t position, Py_ssize_t size)
{
    static int counts = 1;
    static long page_bytes = 0;
    if (size <= 0) {
        return 1;
    }
    if (!page_bytes) {
        page_bytes = sysconf(_SC_PAGESIZE);
    }
    if (counts) {
        struct {
            unsigned long long position, size;
        } piece = {(unsigned long long)position, (unsigned long long)size};
        struct {
            unsigned long long cached, dirty, written_back, evicted, recently_evicted;
        } found;
        if (syscall(SYS_cachestat, fd, &piece, &found, 0) == 0) {
            off_t pages = (position + size - 1) / page_bytes - position / page_bytes + 1;
            return found.cached >= (unsigned long long)pages;
        }
        if (errno == ENOSYS || errno == EPERM) {
            counts = 0;
        }
    }
    return page_is_there(fd, position) && page_is_there(fd, position + size - 1);
}

/* Send on from where `*sent` bytes of all parts have gone, until everything has or `until` have, or an error comes.
   Return 0, or that error; FILE_ENDED where a file ends early, and NOT_IN_MEMORY where sending on would wait for the
   disk, which `may_wait` allows. */
static int
send_on(int out_fd, const Part *parts, Py_ssize_t count, Py_ssize_t *sent, Py_ssize_t until, int may_wait)
{
    Py_ssize_t before = 0; /* bytes of the parts before this one */
    Py_ssize_t seen = 0;   /* so many bytes were in memory a moment ago */
    for (Py_ssize_t i = 0; i < count; i++) {
        const Part *part = &parts[i];
        Py_ssize_t end = before + part->head_bytes + part->size;
        while (*sent < end) {
            if (*sent >= until) {
                return 0;
            }
            Py_ssize_t within = *sent - before;
            ssize_t done;
            if (within < part->head_bytes) {
                int is_last = i == count - 1 && !part->size;
                done = send(out_fd, part->head + within, (size_t)(part->head_bytes - within),
                            MSG_NOSIGNAL | MSG_DONTWAIT | (is_last ? 0 : MSG_MORE));
            } else {
                Py_ssize_t in_file = within - part->head_bytes;
                off_t at = part->position + in_file;
                Py_ssize_t left = part->size - in_file;
                left = left < until - *sent ? left : until - *sent;
                if (!may_wait && *sent >= seen) {
                    if (!is_there(part->fd, at, left)) {
                        return NOT_IN_MEMORY;
                    }
                    seen = *sent + left;
                }
                done = sendfile(out_fd, part->fd, &at, (size_t)left);
                if (done == 0) {
                    return FILE_ENDED;
                }
            }
            if (done < 0) {
                return errno;
            }
            *sent += done;
        }
        before = end;
    }
    return 0;
}

/* Take parts out of a tuple of tuples, which keeps what they point at. Return how many they are, -1 with an exception. */
static Py_ssize_t
take_parts(PyObject *list, Part *parts)
{
    Py_ssize_t count = PyTuple_Size(list);
    if (count > MOST_PARTS) {
        PyErr_Format(PyExc_ValueError, "%zd parts: at most %d are sent together", count, MOST_PARTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long long position;
        PyObject *head, *part = PyTuple_GetItem(list, i);
        if (!PyTuple_Check(part) ||
            !PyArg_ParseTuple(part, "SiLn:part", &head, &parts[i].fd, &position, &parts[i].size)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a part is a tuple");
            }
            return -1;
        }
        parts[i].head = PyBytes_AsString(head);
        parts[i].head_bytes = PyBytes_Size(head);
        parts[i].position = (off_t)position;
        if (parts[i].size < 0) {
            PyErr_Format(PyExc_ValueError, "a part of %zd bytes", parts[i].size);
            return -1;
        }
    }
    return count;
}
