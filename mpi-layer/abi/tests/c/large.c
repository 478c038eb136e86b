/* Nonblocking and persistent collectives in their forms for large counts; those between neighbours are in neighbors.c. */
#define LARGE
#include "later.c"
