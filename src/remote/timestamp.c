/* SPDX-License-Identifier: Apache-2.0 */
#include "timestamp.h"

#include <string.h>

/* n digits as a number; -1 where there is something else. */
static int timestamp_digits(const char **p, int n)
{
    int v = 0;

    for (int i = 0; i < n; i++, (*p)++) {
        if (**p < '0' || **p > '9') {
            return -1;
        }
        v = v * 10 + (**p - '0');
    }
    return v;
}

/* ".678" as nanoseconds; digits past the ninth are dropped. */
static long timestamp_fraction(const char **p)
{
    long ns = 0, unit = 100000000;

    if (**p != '.') {
        return 0;
    }
    for ((*p)++; **p >= '0' && **p <= '9'; (*p)++, unit /= 10) {
        ns += (**p - '0') * unit;
    }
    return ns;
}

/* "Z", "+01:00" or "+0100" as seconds east of Greenwich. */
static bool timestamp_zone(const char *p, long *out)
{
    *out = 0;
    if (strcmp(p, "Z") == 0 || strcmp(p, "z") == 0) {
        return true;
    }
    int sign = *p == '+' ? 1 : *p == '-' ? -1 : 0;
    p += sign != 0;
    int hours = sign ? timestamp_digits(&p, 2) : -1;
    p += hours >= 0 && *p == ':';
    int minutes = hours >= 0 ? timestamp_digits(&p, 2) : -1;
    *out = sign * (hours * 3600L + minutes * 60L);
    return minutes >= 0 && hours < 24 && minutes < 60 && !*p;
}

bool timestamp_iso(const char *text, struct timespec *out)
{
    static const struct {
        int digits, least, most;
        char after;
    } field[] = {{4, 1970, 9999, '-'}, {2, 1, 12, '-'}, {2, 1, 31, 'T'},
                 {2, 0, 23, ':'},      {2, 0, 59, ':'}, {2, 0, 60, '\0'}};
    const char *p = text;
    int v[6];
    long zone;

    for (size_t i = 0; i < 6; i++) {
        v[i] = timestamp_digits(&p, field[i].digits);
        if (v[i] < field[i].least || v[i] > field[i].most || (i < 5 && *p != field[i].after)) {
            return false;
        }
        p += i < 5;
    }
    long ns = timestamp_fraction(&p);
    struct tm tm = {.tm_year = v[0] - 1900,
                    .tm_mon = v[1] - 1,
                    .tm_mday = v[2],
                    .tm_hour = v[3],
                    .tm_min = v[4],
                    .tm_sec = v[5]};
    time_t t = timegm(&tm);
    if (tm.tm_mday != v[2] || !timestamp_zone(p, &zone)) {
        return false;
    }
    *out = (struct timespec){.tv_sec = t - zone, .tv_nsec = ns};
    return true;
}
