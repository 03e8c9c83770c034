/* SPDX-License-Identifier: Apache-2.0 */
/* Decides from the settings where the AWS credentials come from, without network requests.  The order is botocore's
 * (credentials.py, create_credential_resolver).
 *
 * Source: botocore/credentials.py (1.43): EnvProvider, AssumeRoleProvider, ProfileProviderBuilder. */
#include "aws.h"

#include <string.h>
#include <strings.h>

/* State while a chain of profiles is followed (a loop, no recursion). */
struct plan_walk {
    struct aws_plan *plan;
    const struct aws_conf *conf;
    const char *seen[AWS_PLAN_ROLES + 1];
    unsigned n_seen;
};

static void plan_key(struct aws_plan *p, const char *id, const char *secret, const char *token)
{
    p->base = AWS_STATIC;
    p->id = id;
    p->secret = secret;
    p->token = token && *token ? token : NULL;
}

/* Uses AWS_ACCESS_KEY_ID with its secret and token.  *found: it is set. */
static bool plan_env(struct aws_plan *p, bool *found, struct zf_err *err)
{
    const char *id = settings_env("AWS_ACCESS_KEY_ID");
    const char *secret = settings_env("AWS_SECRET_ACCESS_KEY");
    const char *token = settings_env("AWS_SECURITY_TOKEN");

    *found = id != NULL;
    if (!id)
        return true;
    if (!secret) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    }
    p->from = "the environment";
    plan_key(p, id, secret, token ? token : settings_env("AWS_SESSION_TOKEN"));
    return true;
}

/* A profile's option, or the environment variable that overrides it. */
static const char *plan_say(const struct plan_walk *w, const char *profile, const char *option,
                            const char *variable)
{
    const char *v = variable ? settings_env(variable) : NULL;

    return v ? v : aws_conf_get(w->conf, profile, option);
}

static bool plan_role_full(const struct plan_walk *w, struct zf_err *err)
{
    return w->plan->n_roles < AWS_PLAN_ROLES ||
           zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "the profile \"%.60s\" assumes more than %u roles one after the other",
                   w->conf->profile, AWS_PLAN_ROLES);
}

/* Uses a web identity token file.  *found: the profile, or with `env` the environment, names one. */
static bool plan_web_identity(struct plan_walk *w, const char *profile, bool env, bool *found,
                              struct zf_err *err)
{
    struct aws_plan *p = w->plan;
    const char *file =
        plan_say(w, profile, "web_identity_token_file", env ? "AWS_WEB_IDENTITY_TOKEN_FILE" : NULL);
    const char *arn = plan_say(w, profile, "role_arn", env ? "AWS_ROLE_ARN" : NULL);

    *found = file && *file;
    if (!*found)
        return true;
    if (!arn || !*arn) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "web_identity_token_file is set, but role_arn (AWS_ROLE_ARN) is not");
    }
    if (!plan_role_full(w, err))
        return false;
    struct aws_role *r = &p->role[p->n_roles++];
    p->base = AWS_WEB_IDENTITY;
    p->from = "a web identity token";
    p->token_file = file;
    r->arn = arn;
    r->session = plan_say(w, profile, "role_session_name", env ? "AWS_ROLE_SESSION_NAME" : NULL);
    return true;
}

/* Uses the profile's key in the credentials file, or with `both` in either file.  *found: there is one. */
static bool plan_profile_key(struct plan_walk *w, const char *profile, bool both, bool *found,
                             struct zf_err *err)
{
    static const char *const option[4] = {"aws_access_key_id", "aws_secret_access_key",
                                          "aws_security_token", "aws_session_token"};
    const struct ini *shared = &w->conf->shared;
    const size_t at = ini_section(shared, profile);
    const char *say[4];

    for (unsigned i = 0; i < 4; i++)
        say[i] = both ? aws_conf_get(w->conf, profile, option[i]) : ini_get(shared, at, option[i]);
    *found = say[0] != NULL;
    if (!*found)
        return true;
    if (!say[1]) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the profile \"%.60s\" has aws_access_key_id, but no aws_secret_access_key",
                       profile);
    }
    w->plan->from = "a profile";
    plan_key(w->plan, say[0], say[1], say[2] ? say[2] : say[3]);
    return true;
}

static bool plan_cannot(const struct plan_walk *w, const char *profile, bool process,
                        struct zf_err *err)
{
    const char *what = NULL;

    if (process && aws_conf_get(w->conf, profile, "credential_process"))
        what = "credential_process, and zerofs runs no other program";
    else if (aws_conf_get(w->conf, profile, "sso_session") ||
             aws_conf_get(w->conf, profile, "sso_start_url"))
        what = "SSO";
    else if (aws_conf_get(w->conf, profile, "login_session"))
        what = "aws login";
    return !what ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "the profile \"%.60s\" needs %s. Put its credentials into the environment: eval "
                   "\"$(aws configure export-credentials --profile %.60s --format env)\"",
                   profile, what, profile);
}

/* Uses the profile's own credentials.  *found: it has some. */
static bool plan_profile(struct plan_walk *w, const char *profile, bool env, bool *found,
                         struct zf_err *err)
{
    if (!plan_web_identity(w, profile, env, found, err))
        return false;
    if (*found)
        return true;
    if (!plan_cannot(w, profile, false, err))
        return false;
    if (!plan_profile_key(w, profile, false, found, err))
        return false;
    if (*found)
        return true;
    return plan_cannot(w, profile, true, err) && plan_profile_key(w, profile, true, found, err);
}

static bool plan_has_role(const struct plan_walk *w, const char *profile)
{
    return aws_conf_get(w->conf, profile, "role_arn") &&
           !aws_conf_get(w->conf, profile, "web_identity_token_file");
}

static bool plan_has_key(const struct plan_walk *w, const char *profile)
{
    return aws_conf_get(w->conf, profile, "aws_access_key_id") ||
           aws_conf_get(w->conf, profile, "aws_secret_access_key");
}

static bool plan_role(struct plan_walk *w, const char *profile, struct zf_err *err)
{
    const struct aws_conf *c = w->conf;

    if (aws_conf_get(c, profile, "mfa_serial")) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "the role of profile \"%.60s\" needs an MFA code. Assume it first and put "
                       "the credentials into the environment",
                       profile);
    }
    if (!plan_role_full(w, err))
        return false;
    w->plan->role[w->plan->n_roles++] =
        (struct aws_role){.arn = aws_conf_get(c, profile, "role_arn"),
                          .session = aws_conf_get(c, profile, "role_session_name"),
                          .external_id = aws_conf_get(c, profile, "external_id"),
                          .duration = aws_conf_get(c, profile, "duration_seconds")};
    return true;
}

static bool plan_has_container(void)
{
    return settings_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
           settings_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* credential_source = Environment, EcsContainer or Ec2InstanceMetadata. */
static bool plan_source(struct plan_walk *w, const char *profile, const char *source,
                        struct zf_err *err)
{
    bool found = true;

    if (strcasecmp(source, "Environment") == 0) {
        if (!plan_env(w->plan, &found, err))
            return false;
    } else if (strcasecmp(source, "EcsContainer") == 0) {
        w->plan->base = AWS_CONTAINER;
        found = plan_has_container();
    } else if (strcasecmp(source, "Ec2InstanceMetadata") == 0) {
        w->plan->base = AWS_INSTANCE;
        w->plan->explicit_instance = true;
    } else {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the profile \"%.60s\" has credential_source = %.40s, expected Environment, "
                       "EcsContainer or Ec2InstanceMetadata",
                       profile, source);
    }
    return found || zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                            "the profile \"%.60s\" takes credentials from %.40s, which has none",
                            profile, source);
}

/* The profile whose credentials assume the role.  NULL: credential_source was used (*ok true), or *err is set. */
static const char *plan_next(struct plan_walk *w, const char *profile, bool *ok, struct zf_err *err)
{
    const char *next = aws_conf_get(w->conf, profile, "source_profile");
    const char *source = aws_conf_get(w->conf, profile, "credential_source");

    if (next && source) {
        *ok =
            zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                    "the profile \"%.60s\" has both source_profile and credential_source", profile);
        return NULL;
    }
    if (source) {
        *ok = plan_source(w, profile, source, err);
        return NULL;
    }
    if (!next || !aws_conf_has(w->conf, next)) {
        *ok = zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            next ? "the profile \"%.60s\" names source_profile \"%.60s\", which does not exist"
                 : "the profile \"%.60s\" has role_arn, but neither source_profile nor "
                   "credential_source%.0s",
            profile, next ? next : "");
        return NULL;
    }
    bool again = false;
    for (unsigned i = 0; i < w->n_seen; i++)
        again = again || strcmp(w->seen[i], next) == 0;
    /* A profile may hold both a role and the key that assumes it. */
    *ok = !again || (strcmp(next, profile) == 0 && plan_has_key(w, next)) ||
          zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                  "the profile \"%.60s\" leads through source_profile back to \"%.60s\"",
                  w->conf->profile, next);
    return *ok ? next : NULL;
}

/* Follows source_profile until a profile with credentials is found. */
static bool plan_roles(struct plan_walk *w, struct zf_err *err)
{
    const char *profile = w->conf->profile;
    bool ok = true, found;

    do {
        w->seen[w->n_seen++] = profile;
        if (!plan_role(w, profile, err))
            return false;
        profile = plan_next(w, profile, &ok, err);
    } while (profile && !plan_has_key(w, profile) && plan_has_role(w, profile));
    if (!profile)
        return ok;
    if (!plan_profile(w, profile, false, &found, err))
        return false;
    return found || zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                            "the source_profile \"%.60s\" has no credentials", profile);
}

/* The walk finds the last role first. */
static void plan_reverse(struct aws_plan *p)
{
    for (unsigned i = 0; i < p->n_roles / 2; i++) {
        struct aws_role r = p->role[i];
        p->role[i] = p->role[p->n_roles - 1 - i];
        p->role[p->n_roles - 1 - i] = r;
    }
}

static bool plan_unsigned(void)
{
    const char *v = settings_env("AWS_NO_SIGN_REQUEST");

    return v && (strcasecmp(v, "yes") == 0 || strcasecmp(v, "true") == 0 || strcmp(v, "1") == 0);
}

bool aws_plan_make(struct aws_plan *p, const struct aws_conf *c, struct zf_err *err)
{
    struct plan_walk w = {.plan = p, .conf = c};
    bool found = false;

    *p = (struct aws_plan){.base = AWS_ANONYMOUS, .from = "nowhere"};
    if (plan_unsigned())
        return true;
    if (!c->chosen && !plan_env(p, &found, err))
        return false;
    if (found)
        return true;
    if (plan_has_role(&w, c->profile)) {
        bool good = plan_roles(&w, err);
        plan_reverse(p);
        return good;
    }
    if (!plan_profile(&w, c->profile, !c->chosen, &found, err))
        return false;
    if (found)
        return true;
    const bool container = plan_has_container();
    p->base = container ? AWS_CONTAINER : AWS_INSTANCE;
    p->from = container ? "the container" : "the instance";
    return true;
}
