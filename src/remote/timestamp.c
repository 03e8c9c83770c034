/* SPDX-License-Identifier: Apache-2.0 */
#include "timestamp.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* True if the text begins as the form does, where 0 is a digit and a is a letter.  strptime alone also accepts blanks and
 * fewer digits. */
static bool timestamp_like(const char *text, const char *form)
{
    for (; *form; form++, text++) {
        const unsigned char c = (unsigned char)*text;

        if (*form == '0' ? !isdigit(c) : *form == 'a' ? !isalpha(c) : c != (unsigned char)*form)
            return false;
    }
    return true;
}

/* Parses a time and returns the text after it; NULL: another format, or no such day.  Names of months are English, because
 * zerofs stays in the locale "C". */
static const char *timestamp_read(const char *text, const char *format, time_t *out)
{
    struct tm tm = {0};
    const char *end = strptime(text, format, &tm);
    const int day = tm.tm_mday;

    *out = end ? timegm(&tm) : 0;
    return end && tm.tm_mday == day && tm.tm_year >= 70 ? end : NULL;
}

/* Reads ".678" as nanoseconds; digits after the ninth are dropped. */
static long timestamp_fraction(const char **p)
{
    long ns = 0, unit = 100000000;

    if (**p != '.')
        return 0;
    for ((*p)++; isdigit((unsigned char)**p); (*p)++, unit /= 10)
        ns += (**p - '0') * unit;
    return ns;
}

/* Reads "Z", "+01:00" or "+0100" as seconds east of Greenwich. */
static bool timestamp_zone(const char *p, long *out)
{
    const bool colon = *p && timestamp_like(p + 1, "00:00");

    *out = 0;
    if (strcasecmp(p, "Z") == 0)
        return true;
    if ((*p != '+' && *p != '-') || (!colon && !timestamp_like(p + 1, "0000")) || p[5 + colon])
        return false;
    const long hours = (p[1] - '0') * 10 + p[2] - '0', minutes = strtol(p + 3 + colon, NULL, 10);
    *out = (*p == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return hours < 24 && minutes < 60;
}

bool timestamp_iso(const char *text, struct timespec *out)
{
    long east;
    time_t t;
    const char *p = timestamp_like(text, "0000-00-00T00:00:00")
                        ? timestamp_read(text, "%Y-%m-%dT%H:%M:%S", &t)
                        : NULL;

    if (!p)
        return false;
    const long ns = timestamp_fraction(&p);
    if (!timestamp_zone(p, &east))
        return false;
    *out = (struct timespec){.tv_sec = t - east, .tv_nsec = ns};
    return true;
}

bool timestamp_http(const char *text, time_t *out)
{
    const char *end = timestamp_like(text, "aaa, 00 aaa 0000 00:00:00 GMT")
                          ? timestamp_read(text + 5, "%d %b %Y %H:%M:%S GMT", out)
                          : NULL;

    return end && !*end;
}
