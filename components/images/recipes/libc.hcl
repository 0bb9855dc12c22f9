# What programs that are not static need of a system.
layer "libc" {
  from        = "static"
  description = "the C library"
  debs        = ["libc6"]

  drop = [
    "usr/share/man/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*",
    "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/lib/x86_64-linux-gnu/gconv/**",
  ]
}
