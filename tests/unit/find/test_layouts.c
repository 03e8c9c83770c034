/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of directories, what was pointed at in them, and which save is found or what is said. */
#include "support/in_memory.h"

#include "src/find/locate.h"
#include "unit/source/scratch.h"
#include "support/store_mem.h"

enum { MAX_FILES = 8 };

/* A file is its path, and behind '=' its text; without a text it has what its name promises.
 * "a->b" is a link. */
struct layout {
    const char *what;
    const char *file[MAX_FILES];
    const char *tag; /* -o tag=, or NULL */
    const char *at;  /* the file that was pointed at, or NULL: the top directory */
    /* What is found: */
    const char *format, *store, *run, *one, *path, *shown, *note;
    /* or what is said instead: */
    enum zf_code code;
    const char *says;
};

#define MODEL "mp_rank_00_model_states.pt"
#define LONG "a_name_of_a_directory_that_is_longer_than_others_are_"
/* A family's save in a directory below, shown as it is found; a refusal. */
#define FOUND(family, dir) .format = (family), .store = (dir), .path = (dir), .shown = (dir)
#define SAYS(how, text) .code = (how), .says = (text)

static const struct layout layouts[] = {
    {"a save", {"model.safetensors"}, .format = "safetensors", .store = ""},
    {"a DeepSpeed tag",
     {"global_step5/" MODEL, "other/x"},
     FOUND("deepspeed", "global_step5"),
     .note = "the checkpoint is in global_step5, the only one here"},
    {"a run directory",
     {"latest=global_step5", "global_step5/" MODEL, "global_step9/" MODEL},
     .format = "deepspeed",
     .store = "global_step5",
     .run = "",
     .shown = "global_step5"},
    {"a run directory with weights beside the save",
     {"latest=global_step5", "global_step5/" MODEL, "model.safetensors"},
     .format = "deepspeed",
     .store = "global_step5",
     .run = "",
     .shown = "global_step5"},
    {"a run directory whose save is of another family",
     {"latest=step5", "step5/model.safetensors", "step9/model.safetensors"},
     FOUND("safetensors", "step5")},
    {"weights beside a save of another family",
     {"latest=step5", "step5/.metadata", "model.safetensors"},
     FOUND("dcp", "step5")},
    {"a whole model beside it",
     {"latest=step5", "step5/.metadata", "model.safetensors", "config.json={}"},
     .format = "safetensors",
     .store = ""},
    {"-o tag of a run directory",
     {"latest=global_step5", "global_step5/" MODEL, "global_step9/" MODEL},
     .tag = "global_step9",
     .format = "deepspeed",
     .store = "global_step9",
     .run = "",
     .shown = "global_step9"},
    {"a wrapper of a run directory",
     {"zero/run7/latest=global_step5", "zero/run7/global_step5/" MODEL},
     .format = "deepspeed",
     .store = "zero/run7/global_step5",
     .run = "zero/run7",
     .path = "zero/run7",
     .shown = "zero/run7/global_step5",
     .note = "the checkpoint is in zero/run7, the only one here"},
    {"a wrapper that is a save's name itself",
     {"checkpoint-60/latest=global_step60", "checkpoint-60/global_step60/" MODEL},
     .format = "deepspeed",
     .store = "checkpoint-60/global_step60",
     .run = "checkpoint-60",
     .path = "checkpoint-60",
     .shown = "checkpoint-60"},
    {"the same with its tag spelt out",
     {"checkpoint-60/latest=global_step60", "checkpoint-60/global_step60/" MODEL},
     .tag = "checkpoint-60/global_step60",
     .format = "deepspeed",
     .store = "checkpoint-60/global_step60",
     .run = "checkpoint-60",
     .path = "checkpoint-60",
     .shown = "checkpoint-60/global_step60"},
    {"-o tag by way of the run directory",
     {"r/latest=global_step9", "r/global_step5/" MODEL, "r/global_step9/" MODEL},
     .tag = "r/global_step5",
     .format = "deepspeed",
     .store = "r/global_step5",
     .run = "r",
     .path = "r",
     .shown = "r/global_step5"},
    {"latest that names a wrapper",
     {"latest=out", "out/step5/model.safetensors"},
     FOUND("safetensors", "out/step5")},
    {"a numbered series",
     {"step9/model.safetensors", "step10/model.safetensors", "step11/__0_0.distcp"},
     FOUND("safetensors", "step10"),
     .note = "step10 is the newest of 2 saves here; 1 more is unfinished or without weights"},
    {"-o tag=9",
     {"step9/model.safetensors", "step10/model.safetensors"},
     .tag = "9",
     FOUND("safetensors", "step9")},
    {"only an optimizer", {"optimizer.pt"}, .format = "torch", .store = ""},
    {"an optimizer beside a save",
     {"optimizer.pt", "step5/model.safetensors"},
     FOUND("safetensors", "step5")},
    {"an optimizer, and latest names the save",
     {"optimizer.pt", "latest=best", "best/model.safetensors", "last/model.safetensors"},
     FOUND("safetensors", "best")},
    {"weights whose save is gone",
     {"latest=global_step5", "model.safetensors"},
     .format = "safetensors",
     .store = "",
     .note = "the latest save is recorded as global_step5, which does not exist"},

    {"a file of a directory",
     {"a.safetensors", "b.safetensors"},
     .at = "b.safetensors",
     .format = "safetensors",
     .store = "",
     .one = "b.safetensors"},
    {"a file of a DeepSpeed tag",
     {"run7/latest=global_step9", "run7/global_step5/" MODEL},
     .at = "run7/global_step5/" MODEL,
     .format = "deepspeed",
     .store = "",
     .one = MODEL},
    {"a DeepSpeed file beside a pointer file",
     {"latest=global_step9", MODEL, "global_step9/" MODEL},
     .at = MODEL,
     .format = "deepspeed",
     .store = "",
     .one = MODEL},
    {"a manifest means its directory",
     {".metadata", "x.pt"},
     .at = ".metadata",
     .format = "dcp",
     .store = ""},
    {"a pointer file means its directory",
     {"run7/latest=global_step5", "run7/global_step5/" MODEL},
     .at = "run7/latest",
     .format = "deepspeed",
     .store = "global_step5",
     .run = "",
     .shown = "global_step5"},
    {"an optimizer's file",
     {"optimizer.pt", "model.safetensors"},
     .at = "optimizer.pt",
     .format = "torch",
     .store = "",
     .one = "optimizer.pt"},
    {"a file of something else",
     {"notes=hello", "model.safetensors"},
     .at = "notes",
     SAYS(ZF_E_UNKNOWN, "this is neither a torch.save file nor safetensors")},
    {"-o tag of a file",
     {"model.safetensors"},
     .tag = "9",
     .at = "model.safetensors",
     SAYS(ZF_E_USAGE, "tag=9 selects one of the saves in a directory, but \"model.safetensors\" is "
                      "a file. Leave out -o tag=")},

    {"two saves",
     {"best/model.safetensors", "last/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "there are several checkpoints here: best, last. Point at one")},
    {"two saves further down",
     {"out/best/model.safetensors", "out/last/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "out/best, out/last. Point at one")},
    {"DeepSpeed's saves without latest",
     {"global_step1/" MODEL, "global_step2/" MODEL},
     FOUND("deepspeed", "global_step2"),
     .note = "global_step2 is the newest of 2 saves here"},
    {"one save in parts",
     {"model/w.safetensors", "optim/w.safetensors"},
     SAYS(ZF_E_UNSUPPORTED,
          "there are several models in one directory (a Diffusers pipeline?): model, optim")},
    {"latest that names nothing",
     {"latest=global_step9", "global_step5/" MODEL},
     SAYS(ZF_E_FORMAT,
          "\"global_step9\", which does not exist. Found: global_step5 (-o tag=NAME selects one)")},
    {"latest that names nothing, weights, and another save",
     {"latest=global_step9", "global_step5/" MODEL, "model.safetensors"},
     SAYS(ZF_E_FORMAT, "\"global_step9\", which does not exist. Found: global_step5")},
    {"latest that names an optimizer's directory is followed",
     {"latest=a", "a/optimizer.pt", "b/model.safetensors"},
     FOUND("torch", "a")},
    {"latest that names a file",
     {"latest=notes", "notes=hello", "model.safetensors"},
     SAYS(ZF_E_FORMAT, "\"notes\", but it is a file, not a directory")},
    {"latest that names a directory without a save",
     {"latest=a", "a/notes=hello", "model.safetensors"},
     SAYS(ZF_E_FORMAT, "\"a\", but it does not hold a save")},
    {"a DeepSpeed save and a DCP save in one directory: what was read beats a name",
     {MODEL, ".metadata"},
     .format = "dcp",
     .store = ""},
    {"two families that fit as well",
     {"zero_pp_rank_0_mp_rank_00_optim_states.pt", MODEL, ".metadata"},
     SAYS(ZF_E_FORMAT,
          "two formats fit: deepspeed (1 model and 1 optimizer files of DeepSpeed) and dcp (")},
    {"-o tag that is not here",
     {"best/model.safetensors"},
     .tag = "worst",
     SAYS(ZF_E_USAGE, "there is no save \"worst\" here. Found: best (-o tag=NAME selects one)")},
    {"nothing",
     {"notes=hello", "a/notes=hello"},
     SAYS(ZF_E_UNKNOWN, "there is no checkpoint here: no")},
    {"something else", {"a/w.gguf=GGUF1234"}, SAYS(ZF_E_UNSUPPORTED, "a/w.gguf is a GGUF")},

    /* ---- the words of -o tag ---- */
    {"newest",
     {"step9/model.safetensors", "step10/model.safetensors", "step11/__0_0.distcp",
      "step12/__0_0.distcp"},
     .tag = "newest",
     FOUND("safetensors", "step10"),
     .note = "step10 is the newest of 2 saves here; 2 more are unfinished or without weights"},
    {"newest of one",
     {"step9/model.safetensors", "step11/__0_0.distcp"},
     .tag = "newest",
     FOUND("safetensors", "step9"),
     .note = "1 more is unfinished or without weights"},
    {"newest of one without a step",
     {"best/model.safetensors"},
     .tag = "newest",
     FOUND("safetensors", "best"),
     .note = ""},
    {"newest, and two older ones share a step",
     {"epoch-9/model.safetensors", "step-9/model.safetensors", "step-10/model.safetensors"},
     .tag = "newest",
     FOUND("safetensors", "step-10"),
     .note = "step-10 is the newest of 3 saves here"},
    {"newest, and two share its step",
     {"epoch-9/model.safetensors", "step-9/model.safetensors"},
     .tag = "newest",
     SAYS(ZF_E_USAGE,
          "tag=newest could mean more than one of these: epoch-9, step-9. Give the full name")},
    {"newest without steps",
     {"best/model.safetensors", "last/model.safetensors"},
     .tag = "newest",
     SAYS(ZF_E_USAGE,
          "tag=newest could mean more than one of these: best, last. Give the full name")},
    {"newest, and one has no step",
     {"best/model.safetensors", "step9/model.safetensors"},
     .tag = "newest",
     SAYS(ZF_E_USAGE, "could mean more than one of these: best, step9")},
    {"newest of a save",
     {"model.safetensors"},
     .tag = "newest",
     .format = "safetensors",
     .store = ""},
    {"newest of nothing",
     {"notes=x"},
     .tag = "newest",
     SAYS(ZF_E_USAGE, "there is no save \"newest\" here, and no other save. Leave out -o tag=")},
    {"a directory of that name",
     {"newest/model.safetensors", "step9/model.safetensors"},
     .tag = "newest",
     FOUND("safetensors", "newest")},
    {"a number",
     {"step9/__0_0.distcp", "step10/model.safetensors"},
     .tag = "9",
     FOUND("dcp", "step9")},
    {"a number further down",
     {"run/step9/model.safetensors", "run/step10/model.safetensors"},
     .tag = "9",
     FOUND("safetensors", "run/step9")},
    {"a number of 15 digits",
     {"step123456789012345/model.safetensors", "step9/model.safetensors"},
     .tag = "123456789012345",
     FOUND("safetensors", "step123456789012345")},
    {"a number that nothing has",
     {"step9/model.safetensors"},
     .tag = "7",
     SAYS(ZF_E_USAGE, "there is no save \"7\" here. Found: step9 (-o tag=NAME selects one)")},
    {"a number that two have",
     {"epoch-9/model.safetensors", "step-9/model.safetensors", "step-8/model.safetensors"},
     .tag = "9",
     SAYS(ZF_E_USAGE, "tag=9 could mean more than one of these: ")},
    {"a number that a save and its unsharded copy have",
     {"step9/model.safetensors", "step9-unsharded/model.safetensors", "step8/model.safetensors"},
     .tag = "9",
     FOUND("safetensors", "step9")},
    {"latest",
     {"latest=best", "best/model.safetensors", "last/model.safetensors"},
     .tag = "latest",
     FOUND("safetensors", "best")},
    {"latest, and nothing says which",
     {"best/model.safetensors", "last/model.safetensors"},
     .tag = "latest",
     SAYS(ZF_E_USAGE, "the latest save is not recorded here. Select by the steps in the names with "
                      "-o tag=newest")},
    {"a path",
     {"run/step9/model.safetensors", "run/step10/model.safetensors"},
     .tag = "run/step9",
     FOUND("safetensors", "run/step9")},

    /* ---- pointer files ---- */
    {"Megatron's",
     {"latest_checkpointed_iteration.txt=10", "iter_0000010/model.safetensors",
      "iter_0000020/model.safetensors"},
     FOUND("safetensors", "iter_0000010")},
    {"verl's",
     {"latest_checkpointed_iteration.txt=10", "global_step_10/model.safetensors",
      "global_step_20/model.safetensors"},
     FOUND("safetensors", "global_step_10")},
    {"Megatron's release",
     {"latest_checkpointed_iteration.txt=release", "release/model.safetensors",
      "iter_0000020/model.safetensors"},
     FOUND("safetensors", "release")},
    {"DeepSpeed's universal checkpoint",
     {"latest_universal=u5", "u5/" MODEL, "u6/" MODEL},
     .format = "deepspeed",
     .store = "u5",
     .run = "",
     .shown = "u5"},
    {"one digit",
     {"latest_checkpointed_iteration.txt=5", "iter_0000005/model.safetensors",
      "b/model.safetensors"},
     FOUND("safetensors", "iter_0000005")},
    {"a save that is gone, and nothing else",
     {"latest=step9", "notes=x"},
     SAYS(ZF_E_FORMAT, "\"step9\", which does not exist. Found: none")},
    {"pointers all the way",
     {"latest=a", "a/latest=b", "a/b/latest=c", "a/b/c/latest=d", "a/b/c/d/model.safetensors"},
     FOUND("safetensors", "a/b/c/d")},
    {"pointers further than that",
     {"latest=a", "a/latest=b", "a/b/latest=c", "a/b/c/latest=d", "a/b/c/d/latest=e",
      "a/b/c/d/e/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "there is no checkpoint here: no")},
    {"a directory called latest",
     {"latest/notes=x", "model.safetensors"},
     .format = "safetensors",
     .store = ""},
    {"a save called latest beside weights",
     {"latest/model.safetensors", "model.safetensors"},
     .format = "safetensors",
     .store = ""},
    {"a save called latest", {"latest/model.safetensors"}, FOUND("safetensors", "latest")},

    /* ---- further down ---- */
    {"three directories down", {"a/b/c/model.safetensors"}, FOUND("safetensors", "a/b/c")},
    {"four directories down",
     {"a/b/c/d/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "there is no checkpoint here: no")},
    {"hidden directories",
     {".git/model.safetensors", "a/.git/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "there is no checkpoint here: no")},
    {"names of two series",
     {"iter-9/model.safetensors", "step-10/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "here: iter-9, step-10. Point")},
    {"a name and a step",
     {"best/model.safetensors", "step9/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "here: best, step9. Point")},
    {"more names than a sentence holds",
     {LONG "1/model.safetensors", LONG "2/model.safetensors", LONG "3/model.safetensors",
      LONG "4/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, LONG "2, " LONG "3, …. Point at one")},
    {"the parts of one save, and another save",
     {"a/model/w.safetensors", "a/optim/w.safetensors", "b/step5/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "here: a, b/step5. Point")},
    {"one part",
     {"a/model/w.safetensors"},
     FOUND("safetensors", "a/model"),
     .note = "the checkpoint is in a/model, the only one here"},
    {"parts of something else",
     {"a/model/w.safetensors", "a/optim/w.safetensors", "a/x/.zarray"},
     SAYS(ZF_E_UNSUPPORTED, "a directory of zarr arrays")},
    {"a parameter of a universal checkpoint",
     {"a/fp32.pt", "a/model.safetensors"},
     SAYS(ZF_E_UNKNOWN, "there is no checkpoint here: no")},

    /* ---- links ---- */
    {"a link to a save beside it",
     {"last->step-60", "step-60/model.safetensors"},
     FOUND("safetensors", "step-60"),
     .note = "the checkpoint is in step-60, the only one here"},
    {"a link to a directory further down",
     {"out/last->step-60", "out/step-60/model.safetensors"},
     FOUND("safetensors", "out/step-60")},
    {"a link called latest",
     {"latest->step-9", "step-9/model.safetensors", "step-10/model.safetensors"},
     .format = "safetensors",
     .store = "latest",
     .path = "step-9",
     .shown = "step-9"},
    {"a link called latest to nothing",
     {"latest->gone", "model.safetensors"},
     SAYS(ZF_E_FORMAT, "\"latest\", but it is a dangling link")},
    {"a link out of the directory",
     {"latest->/usr", "model.safetensors"},
     SAYS(ZF_E_FORMAT, "leads out of the checkpoint")},
};

/* The contents that a file's name promises, as far as probing looks. */
static const char *contents(const char *path, size_t *n)
{
    static const struct {
        const char *tail, *bytes;
        size_t n;
    } row[] = {
        {".safetensors", "\2\0\0\0\0\0\0\0{}", 10},
        {"optimizer.pt", "\x80\2\x8a\12l\xfc\x9c\106\xf9 j\xa8P\x19.", 15},
        {"optim_states.pt", "\x80\2\x8a\12l\xfc\x9c\106\xf9 j\xa8P\x19.", 15},
        {".metadata", "\x80\2.", 3},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        size_t tail = strlen(row[i].tail), len = strlen(path);

        if (len >= tail && strcmp(path + len - tail, row[i].tail) == 0) {
            *n = row[i].n;
            return row[i].bytes;
        }
    }
    *n = 1;
    return "x";
}

static bool needs_disk(const struct layout *l)
{
    bool link = false;

    for (size_t i = 0; i < MAX_FILES && l->file[i]; i++)
        link = link || strstr(l->file[i], "->");
    return link || l->at;
}

/* Lays the files out in memory or, if there are links or a file is pointed at, below root. */
static struct zf_store *lay_out(struct fixture *f, const struct layout *l, const char *root)
{
    bool disk = needs_disk(l);
    char path[4200];

    for (size_t i = 0; i < MAX_FILES && l->file[i]; i++) {
        const char *text = strchr(l->file[i], '='), *link = strstr(l->file[i], "->");
        size_t n = text ? strlen(text + 1) : 0;
        char name[200];

        (void)snprintf(name, sizeof name, "%.*s",
                       (int)(link ? (size_t)(link - l->file[i]) : strcspn(l->file[i], "=")),
                       l->file[i]);
        const char *bytes = text ? text + 1 : contents(name, &n);
        if (link)
            scratch_link(root, name, link + 2);
        else if (disk)
            scratch_bytes(root, name, bytes, n);
        else
            assert_ok(store_mem_add(f->st, name, bytes, n, &f->err), &f->err);
    }
    if (!disk)
        return zf_store_ref(f->st);
    scratch_path(root, l->at ? l->at : "", path);
    return zf_store_dir(path, &f->lim, &f->err);
}

/* The directory of st as a path from top, whose own name ends in the file that was pointed at. */
static void assert_dir(struct zf_store *top, struct zf_store *st, const char *want)
{
    const char *name = zf_store_name(st), *above = zf_store_name(top);
    size_t n = strlen(above) - (zf_store_focus(top) ? strlen(zf_store_focus(top)) + 1 : 0);

    assert_memory_equal(name, above, n);
    name = strcmp(name, above) == 0 ? "" : name + n;
    assert_string_equal(name + (*name == '/'), want);
}

static void assert_text(const char *is, const char *want)
{
    if (!is || !want) {
        assert_ptr_equal(is, want);
        return;
    }
    assert_string_equal(is, want);
}

static void one_layout(const struct layout *row, const char *root)
{
    struct fixture *f;

    print_message("# %s\n", row->what);
    setup((void **)&f);
    zf_auto(store) struct zf_store *top = lay_out(f, row, root);
    zf_auto(located) struct located l = {.dir = NULL};

    assert_ok(top != NULL, &f->err);
    f->o.tag = row->tag;
    if (row->says) {
        assert_false(locate(top, &f->o, &l, &f->err));
        assert_err(&f->err, row->code, ZF_OFF_NONE, row->says);
    } else {
        assert_ok(locate(top, &f->o, &l, &f->err), &f->err);
        const struct zf_save *save = &l.match.save;
        assert_string_equal(l.match.format->name, row->format);
        assert_dir(top, save->store, row->store);
        assert_text(save->file, row->one);
        assert_text(l.path, row->path);
        assert_text(l.tag, row->shown);
        assert_string_equal(l.note, row->note ? row->note : l.note);
        assert_int_equal(save->run != NULL, row->run != NULL);
        assert_int_equal(save->tag != NULL, row->run != NULL);
        if (save->run)
            assert_dir(top, save->run, row->run);
    }
    teardown((void **)&f);
}

static void finds_what_is_meant(void **state)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char root[4200];

        (void)snprintf(root, sizeof root, "%s/%zu", (const char *)*state, i);
        assert_int_equal(mkdir(root, 0700), 0);
        one_layout(&layouts[i], root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_what_is_meant, scratch_setup, scratch_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
