/* SPDX-License-Identifier: Apache-2.0 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "xml.h"

#include <string.h>

#include <zf/base/out.h>

#ifdef HAVE_EXPAT

#include <expat.h>

#define XML_NAME 256 /* bytes of an element's name */

struct xml_work {
    XML_Parser parser;
    xml_fn *fn;
    void *ctx;
    struct zf_err *err;
    bool failed;
    unsigned depth;
    size_t at[XML_DEPTH]; /* offset in path of each element's name */
    struct zf_out path, text;
};

static inline void zf_auto_xml_work(struct xml_work *w)
{
    if (w->parser)
        XML_ParserFree(w->parser);
    zf_auto_out(&w->path);
    zf_auto_out(&w->text);
}

static void xml_stop(struct xml_work *w)
{
    w->failed = true;
    (void)XML_StopParser(w->parser, XML_FALSE);
}

static uint64_t xml_at(struct xml_work *w)
{
    XML_Index at = XML_GetCurrentByteIndex(w->parser);

    return at < 0 ? ZF_OFF_NONE : (uint64_t)at;
}

static bool xml_report(struct xml_work *w, bool open)
{
    struct xml_event e = {
        .path = zf_out_text(&w->path),
        .open = open,
        .text = open ? "" : zf_out_text(&w->text),
        .n = open ? 0 : w->text.n,
    };

    if (!zf_out_ok(&w->path, w->err) || !zf_out_ok(&w->text, w->err) ||
        !w->fn(w->ctx, &e, w->err)) {
        xml_stop(w);
        return false;
    }
    return true;
}

static void XMLCALL xml_open(void *user, const XML_Char *name, const XML_Char **attr)
{
    struct xml_work *w = user;
    const char *colon = strrchr(name, ':');
    const char *plain = colon ? colon + 1 : name;

    (void)attr;
    if (w->failed)
        return;
    if (w->depth == XML_DEPTH || strlen(plain) > XML_NAME) {
        (void)zf_fail(
            w->err, ZF_E_LIMIT, xml_at(w),
            "the XML has elements nested more than %u deep, or a name of more than %u bytes",
            XML_DEPTH, XML_NAME);
        xml_stop(w);
        return;
    }
    w->at[w->depth++] = w->path.n;
    zf_out_fmt(&w->path, "%s%s", w->path.n ? "/" : "", plain);
    zf_out_cut(&w->text, 0);
    (void)xml_report(w, true);
}

static void XMLCALL xml_close(void *user, const XML_Char *name)
{
    struct xml_work *w = user;

    (void)name;
    if (w->failed || !xml_report(w, false))
        return;
    zf_out_cut(&w->path, w->at[--w->depth]);
    zf_out_cut(&w->text, 0);
}

static void XMLCALL xml_text(void *user, const XML_Char *p, int n)
{
    struct xml_work *w = user;

    if (w->failed)
        return;
    if ((size_t)n > XML_TEXT - w->text.n) {
        (void)zf_fail(w->err, ZF_E_LIMIT, xml_at(w),
                      "the XML has more than %u bytes of text in <%s>", XML_TEXT,
                      zf_out_text(&w->path));
        xml_stop(w);
        return;
    }
    zf_out_add(&w->text, p, (size_t)n);
}

/* Refuses a document type, which could declare entities; replies of object stores have none. */
static void XMLCALL xml_doctype(void *user, const XML_Char *name, const XML_Char *sysid,
                                const XML_Char *pubid, int internal)
{
    struct xml_work *w = user;

    (void)name, (void)sysid, (void)pubid, (void)internal;
    if (!w->failed) {
        (void)zf_fail(
            w->err, ZF_E_FORMAT, xml_at(w),
            "the XML has a document type, which the answer of an object store cannot have");
        xml_stop(w);
    }
}

/* Fails with the parser's error.  Common errors get wording of ours, since expat's changes between releases. */
static bool xml_refuse(struct xml_work *w, size_t n)
{
    enum XML_Error e = XML_GetErrorCode(w->parser);

    if (w->failed)
        return false;
    if (e == XML_ERROR_NO_MEMORY)
        return zf_fail(w->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %zu bytes of XML", n);
    return zf_fail(w->err, ZF_E_FORMAT, xml_at(w), "not well-formed XML: %s",
                   e == XML_ERROR_NO_ELEMENTS      ? "the document is incomplete"
                   : e == XML_ERROR_UNCLOSED_TOKEN ? "the document ends in an element"
                                                   : XML_ErrorString(e));
}

bool xml_walk(const void *p, size_t n, xml_fn *fn, void *ctx, struct zf_err *err)
{
    zf_auto(xml_work) struct xml_work w = {.fn = fn, .ctx = ctx, .err = err};

    if (n > INT32_MAX)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the XML has more than 2 GiB");
    w.parser = XML_ParserCreate(NULL);
    if (!w.parser)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for XML");
    XML_SetUserData(w.parser, &w);
    XML_SetElementHandler(w.parser, xml_open, xml_close);
    XML_SetCharacterDataHandler(w.parser, xml_text);
    XML_SetStartDoctypeDeclHandler(w.parser, xml_doctype);
    if (XML_Parse(w.parser, p, (int)n, XML_TRUE) != XML_STATUS_OK || w.failed)
        return xml_refuse(&w, n);
    return true;
}

bool xml_ready(struct zf_err *err)
{
    (void)err;
    return true;
}

#else

bool xml_walk(const void *p, size_t n, xml_fn *fn, void *ctx, struct zf_err *err)
{
    (void)p, (void)n, (void)fn, (void)ctx;
    return xml_ready(err);
}

bool xml_ready(struct zf_err *err)
{
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "object stores answer in XML, and this zerofs was built without expat "
                   "(configure --with-expat)");
}

#endif
