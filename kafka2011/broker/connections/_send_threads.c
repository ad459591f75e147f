/* Threads that send answers while the event loop goes on: neither sendfile(2) nor waiting for room needs Python.

   send_threads.py says who asks for it. Only the stable ABI of Python 3.11 is used, so one build serves every later
   version. */

#define _GNU_SOURCE /* preadv2, syscall, a lock that is tried some times before one sleeps */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_parts.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { SLICE_BYTES = 1024 * 1024 }; /* after which others come first */

#define STOP UINT64_MAX /* in place of a ticket */

/* An answer that is sent by threads. */
typedef struct Job {
    struct Job *next; /* of those that are done */
    PyObject *list;   /* keeps the heads */
    Py_ssize_t count, sent, size;
    uint32_t number; /* tells it from an earlier one of the same socket */
    int out_fd, error, is_sending, is_done, is_cancelled;
    Part parts[];
} Job;

typedef struct {
    PyObject_HEAD
    pthread_mutex_t lock; /* of all that follows; who has it never waits for Python, nor for a socket */
    pthread_cond_t is_idle;
    Job **jobs; /* by their sockets */
    Py_ssize_t room;
    Job *done;
    uint32_t next_number;
    int epoll_fd, done_fd, stop_fd;
} Sender;

static uint64_t
ticket_of(const Job *job)
{
    return (uint64_t)job->number << 32 | (uint32_t)job->out_fd;
}

/* Have one thread, and only one, told when the socket of an answer has room. */
static int
await_room(Sender *self, const Job *job, int operation)
{
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.u64 = ticket_of(job)};
    return epoll_ctl(self->epoll_fd, operation, job->out_fd, &event);
}

static Job *
job_of(const Sender *self, Py_ssize_t out_fd)
{
    return out_fd >= 0 && out_fd < self->room ? self->jobs[out_fd] : NULL;
}

/* Send some of an answer, whose socket has room. */
static void
send_some(Sender *self, uint64_t ticket)
{
    pthread_mutex_lock(&self->lock);
    Job *job = job_of(self, (Py_ssize_t)(uint32_t)ticket);
    if (job == NULL || ticket_of(job) != ticket || job->is_done || job->is_sending) { /* cancelled meanwhile */
        pthread_mutex_unlock(&self->lock);
        return;
    }
    job->is_sending = 1;
    pthread_mutex_unlock(&self->lock);
    Py_ssize_t sent = job->sent, until = job->size - sent < SLICE_BYTES ? job->size : sent + SLICE_BYTES;
    int error = send_on(job->out_fd, job->parts, job->count, &sent, until, 0), is_first = 0;
    pthread_mutex_lock(&self->lock);
    job->sent = sent;
    job->is_sending = 0;
    if (job->is_cancelled) {
        pthread_cond_broadcast(&self->is_idle);
    } else {
        int goes_on = sent < job->size && (error == 0 || error == EAGAIN || error == EINTR);
        if (goes_on && await_room(self, job, EPOLL_CTL_MOD) < 0) {
            error = errno;
            goes_on = 0;
        }
        if (!goes_on) {
            epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, job->out_fd, NULL);
            job->error = error;
            job->is_done = 1;
            is_first = self->done == NULL;
            job->next = self->done;
            self->done = job;
        }
    }
    pthread_mutex_unlock(&self->lock);
    if (is_first) {
        (void)!eventfd_write(self->done_fd, 1);
    }
}

static PyObject *
Sender_serve(Sender *self, PyObject *Py_UNUSED(ignored))
{
    Py_BEGIN_ALLOW_THREADS
    for (;;) {
        struct epoll_event event;
        int count = epoll_wait(self->epoll_fd, &event, 1, -1);
        if (count < 0 && errno != EINTR) {
            break;
        }
        if (count == 1) {
            if (event.data.u64 == STOP) {
                break;
            }
            send_some(self, event.data.u64);
        }
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
Sender_add(Sender *self, PyObject *arguments)
{
    Part parts[MOST_PARTS];
    int out_fd;
    PyObject *list;
    Py_ssize_t sent, size;
    if (!PyArg_ParseTuple(arguments, "iO!nn:add", &out_fd, &PyTuple_Type, &list, &sent, &size)) {
        return NULL;
    }
    Py_ssize_t count = take_parts(list, parts);
    if (count < 0) {
        return NULL;
    }
    if (out_fd < 0 || job_of(self, out_fd) != NULL) {
        return PyErr_Format(PyExc_ValueError, "socket %d has an answer on its way", out_fd);
    }
    Job *job = calloc(1, sizeof(Job) + (size_t)count * sizeof(Part));
    if (job == NULL) {
        return PyErr_NoMemory();
    }
    job->list = Py_NewRef(list);
    job->count = count;
    job->sent = sent;
    job->size = size;
    job->out_fd = out_fd;
    memcpy(job->parts, parts, (size_t)count * sizeof(Part));
    int error = 0;
    pthread_mutex_lock(&self->lock);
    if (out_fd >= self->room) {
        Py_ssize_t room = (Py_ssize_t)out_fd * 2 + 64;
        Job **jobs = realloc(self->jobs, (size_t)room * sizeof(Job *));
        if (jobs == NULL) {
            error = ENOMEM;
        } else {
            memset(jobs + self->room, 0, (size_t)(room - self->room) * sizeof(Job *));
            self->jobs = jobs;
            self->room = room;
        }
    }
    if (!error) {
        job->number = self->next_number++;
        self->jobs[out_fd] = job;
        if (await_room(self, job, EPOLL_CTL_ADD) < 0) {
            error = errno;
            self->jobs[out_fd] = NULL;
        }
    }
    pthread_mutex_unlock(&self->lock);
    if (error) {
        Py_DECREF(list);
        free(job);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *
Sender_take(Sender *self, PyObject *Py_UNUSED(ignored))
{
    eventfd_t times;
    pthread_mutex_lock(&self->lock);
    Job *job = self->done;
    self->done = NULL;
    (void)!eventfd_read(self->done_fd, &times);
    for (Job *each = job; each != NULL; each = each->next) {
        self->jobs[each->out_fd] = NULL;
    }
    pthread_mutex_unlock(&self->lock);
    PyObject *found = PyList_New(0);
    while (job != NULL) {
        Job *next = job->next;
        PyObject *item = found == NULL ? NULL : Py_BuildValue("(ini)", job->out_fd, job->sent, job->error);
        if (item == NULL || PyList_Append(found, item) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(item);
        Py_DECREF(job->list);
        free(job);
        job = next;
    }
    return found;
}

static PyObject *
Sender_cancel(Sender *self, PyObject *arguments)
{
    int out_fd;
    if (!PyArg_ParseTuple(arguments, "i:cancel", &out_fd)) {
        return NULL;
    }
    Job *job;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->lock);
    job = job_of(self, out_fd);
    if (job != NULL) {
        job->is_cancelled = 1;
        while (job->is_sending) {
            pthread_cond_wait(&self->is_idle, &self->lock);
        }
        if (job->is_done) {
            Job **place = &self->done;
            while (*place != job) {
                place = &(*place)->next;
            }
            *place = job->next;
        } else {
            epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, out_fd, NULL);
        }
        self->jobs[out_fd] = NULL;
    }
    pthread_mutex_unlock(&self->lock);
    Py_END_ALLOW_THREADS
    if (job == NULL) {
        Py_RETURN_NONE;
    }
    Py_DECREF(job->list);
    free(job);
    Py_RETURN_NONE;
}

static PyObject *
Sender_sent(Sender *self, PyObject *arguments)
{
    int out_fd;
    if (!PyArg_ParseTuple(arguments, "i:sent", &out_fd)) {
        return NULL;
    }
    pthread_mutex_lock(&self->lock);
    const Job *job = job_of(self, out_fd);
    Py_ssize_t sent = job == NULL ? -1 : job->sent;
    pthread_mutex_unlock(&self->lock);
    return PyLong_FromSsize_t(sent);
}

static PyObject *
Sender_fileno(Sender *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(self->done_fd);
}

static PyObject *
Sender_stop(Sender *self, PyObject *Py_UNUSED(ignored))
{
    if (eventfd_write(self->stop_fd, 1) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *
Sender_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    if (!PyArg_ParseTuple(arguments, ":Sender")) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Sender *self = (Sender *)allocate(type, 0);
    if (self == NULL) {
        return NULL;
    }
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP); /* it is held for a system call at most */
    pthread_mutex_init(&self->lock, &kind);
    pthread_mutexattr_destroy(&kind);
    pthread_cond_init(&self->is_idle, NULL);
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = STOP}; /* nobody reads it, so all threads see it */
    if (self->epoll_fd < 0 || self->done_fd < 0 || self->stop_fd < 0 ||
        epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->stop_fd, &event) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
Sender_dealloc(Sender *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (Py_ssize_t i = 0; i < self->room; i++) {
        if (self->jobs[i] != NULL) {
            Py_DECREF(self->jobs[i]->list);
            free(self->jobs[i]);
        }
    }
    free(self->jobs);
    int fds[] = {self->epoll_fd, self->done_fd, self->stop_fd};
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->is_idle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef sender_methods[] = {
    {"add", (PyCFunction)Sender_add, METH_VARARGS, "Have an answer sent on."},
    {"cancel", (PyCFunction)Sender_cancel, METH_VARARGS, "Have nothing more sent to a socket."},
    {"fileno", (PyCFunction)Sender_fileno, METH_NOARGS, "Return what can be read when answers are done."},
    {"sent", (PyCFunction)Sender_sent, METH_VARARGS, "Return how many bytes have gone by now."},
    {"serve", (PyCFunction)Sender_serve, METH_NOARGS, "Send until told to stop."},
    {"stop", (PyCFunction)Sender_stop, METH_NOARGS, "Have all threads return."},
    {"take", (PyCFunction)Sender_take, METH_NOARGS, "Return what is done: socket, bytes that have gone, error."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sender_slots[] = {
    {Py_tp_doc, "Answers on their way, which threads send."},
    {Py_tp_new, Sender_new},
    {Py_tp_dealloc, Sender_dealloc},
    {Py_tp_methods, sender_methods},
    {0, NULL},
};

static PyType_Spec sender_spec = {
    .name = "kafka2011.broker.connections._send_threads.Sender",
    .basicsize = sizeof(Sender),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sender_slots,
};

static int
prepare(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &sender_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "Sender", type);
    Py_DECREF(type);
    return failed;
}

static PyMethodDef methods[] = {
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.broker.connections._send_threads",
    .m_doc = "Threads that send answers.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__send_threads(void)
{
    return PyModuleDef_Init(&definition);
}
