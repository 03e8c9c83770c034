# SPDX-License-Identifier: Apache-2.0
# Each shell finds its completions below $(datadir) by itself; only bash's place varies.
dist_bashcomp_DATA = completions/zerofs.bash
zshcompdir = $(datadir)/zsh/site-functions
dist_zshcomp_DATA = completions/_zerofs
fishcompdir = $(datadir)/fish/vendor_completions.d
dist_fishcomp_DATA = completions/zerofs.fish
