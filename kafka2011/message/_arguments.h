/* The arguments of a function of C code that are not taken by a format. */

#include <Python.h>

/* Read numbers; -1 with an exception. */
static int
read_sizes(PyObject *const *args, Py_ssize_t *sizes, int count)
{
    for (int i = 0; i < count; i++) {
        sizes[i] = PyLong_AsSsize_t(args[i]);
        if (sizes[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* Say with an exception, and -1, that a function got too few or too many. */
static int
expect(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, wanted, given);
    return -1;
}
