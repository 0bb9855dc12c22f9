# What scripts of compose files call: sh, the core utilities, sed, grep.
layer "shell" {
  from        = "libc"
  description = "sh, core utilities, sed, grep, C.UTF-8"
  debs        = ["dash", "coreutils", "sed", "grep", "libc-bin"]

  # Maintainer scripts call these; none is run here.
  exclude = [
    "debianutils", "dpkg", "tar", "libbz2-1.0", "liblzma5", "libmd0", "libzstd1", "zlib1g",
   
  ]
  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/debianutils/**",
    "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/doc/*/AUTHORS*",
    "usr/share/doc/*/THANKS*", "usr/share/doc/*/examples/**", "usr/lib/x86_64-linux-gnu/gconv/**",
    "usr/share/menu/**",
  ]
}
