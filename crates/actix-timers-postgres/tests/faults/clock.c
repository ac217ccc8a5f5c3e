/*
 * Preloaded into a node: shifts its wall clock, as if its machine's were wrong.
 *
 * FAULTS_CLOCK names a file of eight bytes, the microseconds by which the clock is ahead. Writing the file sets the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CLOCK");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        ahead = mapped;
    close(fd);
}

static void shift(struct timespec *time) {
    if (!ahead)
        return;
    int64_t nanos = time->tv_nsec + *ahead % 1000000 * 1000;
    time->tv_sec += *ahead / 1000000;
    while (nanos < 0) {
        nanos += 1000000000;
        time->tv_sec--;
    }
    time->tv_sec += nanos / 1000000000;
    time->tv_nsec = nanos % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(time);
    return result;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    value->tv_sec = now.tv_sec;
    value->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
