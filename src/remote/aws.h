/* SPDX-License-Identifier: Apache-2.0 */
/* AWS credentials, for S3 and compatible stores: configuration files and settings, the plan derived from them, fetching
 * keys, signing requests. */
#ifndef REMOTE_AWS_H
#define REMOTE_AWS_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/vec.h>

#include "http.h"
#include "settings.h"

/* ---- INI files (ini.c) ----------------------------------------------------------------------------------- */

#define INI_BYTES (1u << 20) /* of one file */
#define INI_LINES 10000u     /* sections, and options: each is compared with all before it */

struct ini_option {
    size_t section;
    char *name; /* lower case */
    char
        *value; /* continuation lines are joined by '\n'; a value that begins with '\n' is nested */
};

struct ini {
    zf_vec(char *) section; /* names as written; owned */
    zf_vec(struct ini_option) option;
};

/* Reads p[n].  Errors: ZF_E_FORMAT with byte and line; ZF_E_LIMIT INI_BYTES, INI_LINES;
 * ZF_E_NOMEM. */
bool ini_parse(struct ini *out, const char *p, size_t n, struct zf_err *err) ZF_CHECKED;

/* Wipes what it held. */
void ini_fini(struct ini *ini);

static inline void zf_auto_ini(struct ini *ini)
{
    ini_fini(ini);
}

#define INI_NONE ((size_t)-1)

/* The section of this name, or INI_NONE. */
size_t ini_section(const struct ini *ini, const char *name);

/* The last section whose header is two words, `kind` and `name`, as a shell would split them: [profile a]
 * and [profile "a"].  INI_NONE: none. */
size_t ini_section_of(const struct ini *ini, const char *kind, const char *name);

/* The value in that section, or else in [DEFAULT]; NULL: neither has it.  Lends. */
const char *ini_get(const struct ini *ini, size_t section, const char *option);

/* In a nested value, "\nendpoint_url = http://x\n…": the value of that name, malloc'ed; NULL: not
 * there (or no memory, which the next allocation reports). */
char *ini_nested(const char *value, const char *name);

/* ---- profile, region, endpoint (aws_conf.c) ------------------------------------------------------------------- */

struct aws_conf {
    struct ini config, shared;       /* ~/.aws/config, ~/.aws/credentials */
    char *config_path, *shared_path; /* as they were opened, for messages */
    char *profile;                   /* "default" where none is named */
    bool chosen; /* by S3_PROFILE or the like: AWS_ACCESS_KEY_ID does not count */
};

/* Reads both files; a missing one is empty.  profile NULL: that of AWS_PROFILE.
 * Errors: ZF_E_FORMAT, ZF_E_USAGE a profile that neither has, ZF_E_IO. */
bool aws_conf_load(struct aws_conf *c, const char *profile, struct zf_err *err) ZF_CHECKED;

void aws_conf_fini(struct aws_conf *c);

static inline void zf_auto_aws_conf(struct aws_conf *c)
{
    aws_conf_fini(c);
}

bool aws_conf_has(const struct aws_conf *c, const char *profile);

/* An option of a profile: that of the credentials file, or else of the config file.  Lends; NULL: neither has it. */
const char *aws_conf_get(const struct aws_conf *c, const char *profile, const char *option);

/* The URL that is set for a service ("s3", "sts"), malloc'ed; *out is NULL where none is.
 * Errors: ZF_E_USAGE services section that is not there, or no http(s) URL. */
bool aws_conf_endpoint(const struct aws_conf *c, const char *service, char **out,
                       struct zf_err *err) ZF_CHECKED;

/* The region, or NULL.  Lends. */
const char *aws_conf_region(const struct aws_conf *c);

/* The `name` in the nested value `s3` of the profile (addressing_style), malloc'ed; NULL: not there. */
char *aws_conf_s3(const struct aws_conf *c, const char *name);

/* ---- the source of credentials (aws_plan.c) ----------------------------------------------------------------- */

#define AWS_PLAN_ROLES 8 /* each assumed with the credentials of the one before */

enum aws_base {
    AWS_ANONYMOUS,    /* requests are not signed: AWS_NO_SIGN_REQUEST */
    AWS_STATIC,       /* a key, of the environment or of a file */
    AWS_WEB_IDENTITY, /* STS, with the token in a file, for the first role */
    AWS_CONTAINER,    /* a service that the environment names */
    AWS_INSTANCE,     /* IMDS, where there is one; else requests are not signed */
};

struct aws_role {
    const char *arn, *session, *external_id, *duration; /* NULL but for arn: not set */
};

/* Texts are borrowed from the settings and the environment. */
struct aws_plan {
    enum aws_base base;
    /* AWS_INSTANCE: requested by the profile (credential_source), so its absence is an error */
    bool explicit_instance;
    const char *id, *secret, *token;      /* AWS_STATIC; token NULL: none */
    const char *token_file;               /* AWS_WEB_IDENTITY */
    struct aws_role role[AWS_PLAN_ROLES]; /* in the order in which they are assumed */
    unsigned n_roles;
    const char *from; /* for messages: "the environment", "a profile" … */
};

/* Makes the plan; *c must outlive it.  Errors: ZF_E_USAGE contradictory or incomplete settings; ZF_E_UNSUPPORTED
 * credentials that need another program or a human (credential_process, SSO, MFA). */
bool aws_plan_make(struct aws_plan *p, const struct aws_conf *c, struct zf_err *err) ZF_CHECKED;

/* ---- keys (aws_reply.c, aws_fetch.c) ---------------------------------------------------------------------------------------- */

struct aws_key {
    char *id, *secret, *token; /* owned; token NULL: none */
    time_t expires;            /* 0: never, as far as is known */
};

/* Wipes what it held. */
void aws_key_fini(struct aws_key *k);

static inline void zf_auto_aws_key(struct aws_key *k)
{
    aws_key_fini(k);
}

/* Reads p[n] into *out, which is empty.  Errors: ZF_E_FORMAT; messages quote nothing of the body but an error's code. */
bool aws_reply_json(struct aws_key *out, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;
bool aws_reply_xml(struct aws_key *out, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;

struct aws_fetch {
    struct http *http;
    const struct aws_plan *plan;
    const char *region; /* of STS; NULL: its address without one */
    const char *sts;    /* its URL where one is set; NULL: Amazon's */
};

/* Fetches the key to sign with.  *out without an id: there are no credentials anywhere, and requests go out unsigned.
 * Errors: ZF_E_IO and those of the services; ZF_E_USAGE. */
bool aws_fetch_key(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err) ZF_CHECKED;

/* ---- signed requests (aws_auth.c) ------------------------------------------------------------------------------------- */

struct aws_auth_opts {
    struct http *http;
    const char *profile; /* of S3_PROFILE and the like; NULL: that of AWS_PROFILE */
    const char *id,
        *secret;        /* a key of the environment, borrowed; NULL: that of AWS' own settings */
    const char *region; /* "us-east-1" */
    const char *bucket; /* for messages */
    const char *store;  /* "S3" */
};

/* Decides where credentials will come from; makes no request.  Errors: those of aws_plan_make and aws_conf_load. */
struct auth *aws_auth_new(const struct aws_auth_opts *o, struct zf_err *err) ZF_CHECKED;

/* The region that requests are signed for, copied. */
void aws_auth_region(struct auth *a, char *out, size_t n);

/* Uses the region named in the reply, if any.  True: the region changed. */
bool aws_auth_learn(struct auth *a, const struct http_reply *r);

#endif
