# Python with its standard library, compiled.
layer "python" {
  from        = "shell"
  description = "Python 3.11 and its standard library"
  debs        = ["python3"]
  bytecode    = ["usr/lib/python3.11"]

  exclude = ["media-types", "readline-common", "libtirpc-common", "libreadline8", "dpkg", "tar", "libmd0", "libzstd1"]
  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/python3/debpython/**",
    "usr/share/python3/*.py", "usr/share/python3/runtime.d/**", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*",
    "usr/share/doc/*/TODO*", "usr/share/doc/*/ACKS*", "usr/share/doc/*/HISTORY*", "usr/share/doc/*/examples/**", "usr/share/doc-base/**",
    "usr/share/applications/**", "usr/share/pixmaps/**", "usr/share/binfmts/**", "usr/bin/py3*", "usr/bin/2to3*", "usr/bin/pydoc*", "usr/bin/pygettext*",
    "usr/lib/python3.11/lib2to3/**", "usr/lib/python3.11/test/**", "usr/lib/python3.11/pydoc_data/**", "usr/lib/python3.11/idlelib/**", "usr/lib/python3.11/lib-dynload/readline.*",
    "usr/share/gdb/**", "usr/lib/valgrind/**",
  ]
}
