/* SPDX-License-Identifier: Apache-2.0 */
/* Profile, region and endpoint from the environment and the configuration files of AWS' tools, resolved as botocore
 * does; tests/remote/test_aws.py compares the two.
 *
 * Source: botocore/configloader.py, session.py (full_config, get_scoped_config) and configprovider.py
 * (ConfiguredEndpointProvider) of botocore 1.43.  AWS_REGION, which botocore does not read, is read by the
 * aws command and the other AWS libraries. */
#include "aws.h"

#include <stdio.h>
#include <strings.h>

#include "url.h"

/* The path in the environment variable `name`; if unset, `below` in the home directory. */
static char *conf_path(const char *name, const char *below, struct zf_err *err)
{
    const char *set = settings_env(name), *home = settings_env("HOME");
    const char *first = "", *rest = set ? set : below;
    char *path = NULL;

    if (!set || strncmp(set, "~/", 2) == 0) {
        first = home ? home : "";
        rest = set ? set + 1 : below;
    }
    if (asprintf(&path, "%s%s", first, rest) < 0)
        return zf_null(zf_fail_sys(err, "find AWS settings"));
    return path;
}

static bool conf_read(const char *path, struct ini *out, struct zf_err *err)
{
    zf_auto(secret_out) struct zf_out text = {0};

    return settings_file(path, INI_BYTES, &text, err) &&
           (!text.p || ini_parse(out, text.p, text.n, err) || zf_err_in(err, "%s", path));
}

bool aws_conf_load(struct aws_conf *c, const char *profile, struct zf_err *err)
{
    const char *named = profile ? profile : settings_env("AWS_DEFAULT_PROFILE");

    named = named ? named : settings_env("AWS_PROFILE");
    *c = (struct aws_conf){.chosen = profile != NULL};
    c->config_path = conf_path("AWS_CONFIG_FILE", "/.aws/config", err);
    c->shared_path =
        c->config_path ? conf_path("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials", err) : NULL;
    c->profile = strdup(named ? named : "default");
    if (!c->shared_path || !c->profile)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for AWS settings");
    if (!conf_read(c->config_path, &c->config, err) || !conf_read(c->shared_path, &c->shared, err))
        return false;
    if (named && !aws_conf_has(c, named)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "there is no profile \"%.60s\" in %.100s or %.100s", named, c->config_path,
                       c->shared_path);
    }
    return true;
}

void aws_conf_fini(struct aws_conf *c)
{
    ini_fini(&c->config);
    ini_fini(&c->shared);
    free(c->config_path);
    free(c->shared_path);
    free(c->profile);
    *c = (struct aws_conf){0};
}

/* The section of a profile: in the config file [profile NAME] or [default], in the credentials file [NAME]. */
static size_t conf_section(const struct aws_conf *c, const char *profile)
{
    size_t plain = strcmp(profile, "default") == 0 ? ini_section(&c->config, "default") : INI_NONE;
    size_t at = ini_section_of(&c->config, "profile", profile);

    /* If both [default] and [profile default] exist, the later one counts. */
    return at == INI_NONE || (plain != INI_NONE && plain > at) ? plain : at;
}

bool aws_conf_has(const struct aws_conf *c, const char *profile)
{
    return conf_section(c, profile) != INI_NONE || ini_section(&c->shared, profile) != INI_NONE;
}

const char *aws_conf_get(const struct aws_conf *c, const char *profile, const char *option)
{
    const char *v = ini_get(&c->shared, ini_section(&c->shared, profile), option);

    return v ? v : ini_get(&c->config, conf_section(c, profile), option);
}

static bool conf_yes(const char *v)
{
    return v && strcasecmp(v, "true") == 0;
}

/* Reads `endpoint_url` of the service from the [services NAME] section that the profile refers to. */
static bool conf_services(const struct aws_conf *c, const char *service, char **out,
                          struct zf_err *err)
{
    const char *name = aws_conf_get(c, c->profile, "services");

    *out = NULL;
    if (!name)
        return true;
    size_t at = ini_section_of(&c->config, "services", name);
    if (at == INI_NONE) {
        return zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "the profile \"%.60s\" names a section [services %.60s], which is not in %.100s",
            c->profile, name, c->config_path);
    }
    *out = ini_nested(ini_get(&c->config, at, service), "endpoint_url");
    return true;
}

static bool conf_is_url(const char *url, struct zf_err *err)
{
    return url_is_endpoint(url) || zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                                           "the endpoint (AWS_ENDPOINT_URL, endpoint_url of a "
                                           "profile) is not a plain http:// or https:// URL");
}

bool aws_conf_endpoint(const struct aws_conf *c, const char *service, char **out,
                       struct zf_err *err)
{
    char name[40] = "AWS_ENDPOINT_URL_";
    const char *ignore = settings_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    size_t n = strlen(name);

    for (const char *p = service; *p && n < sizeof name - 1; p++)
        name[n++] = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
    *out = NULL;
    if (conf_yes(ignore ? ignore : aws_conf_get(c, c->profile, "ignore_configured_endpoint_urls")))
        return true;
    const char *url = settings_env(name);
    url = url ? url : settings_env("AWS_ENDPOINT_URL");
    if (!url && !conf_services(c, service, out, err))
        return false;
    url = url || *out ? url : aws_conf_get(c, c->profile, "endpoint_url");
    if (url && *url) {
        *out = strdup(url);
        if (!*out)
            return zf_fail_sys(err, "read settings");
    }
    if (*out && !conf_is_url(*out, err)) {
        free(*out);
        *out = NULL;
        return false;
    }
    return true;
}

const char *aws_conf_region(const struct aws_conf *c)
{
    const char *v = settings_env("AWS_REGION");

    v = v ? v : settings_env("AWS_DEFAULT_REGION");
    v = v ? v : aws_conf_get(c, c->profile, "region");
    return v && *v ? v : NULL;
}

char *aws_conf_s3(const struct aws_conf *c, const char *name)
{
    return ini_nested(aws_conf_get(c, c->profile, "s3"), name);
}
