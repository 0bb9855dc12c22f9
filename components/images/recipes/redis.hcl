image "redis" {
  from        = "shell"
  description = "Redis with Sentinel, and jq for its adapter in shell, as the example of an adapter runs them"
  licenses    = "BSD-3-Clause AND MIT"

  # Debian's redis-server is a link to a program of redis-tools, and some scripts.
  debs = ["redis-tools", "jq"]

  # What sets up a user and its service; maintainer scripts.
  exclude = [
    "adduser", "debconf", "libaudit-common", "libaudit1", "libbz2-1.0", "libcap-ng0", "libcrypt1", "libdb5.3", "libpam-modules", "libpam-modules-bin",
    "libpam0g", "libsemanage-common", "libsemanage2", "libsepol2", "passwd",
  ]
  drop = [
    "usr/share/man/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*",
    "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/doc/*/AUTHORS*", "usr/share/doc/*/examples/**",
    "usr/share/bash-completion/**", "usr/bin/redis-benchmark",
  ]
  link "usr/bin/redis-server" {
    target = "redis-check-rdb"
  }

  # A volume that is mounted here takes this owner.
  directory "var/lib/redis" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["redis-server"]
  ports   = ["6379/tcp", "26379/tcp"]
  try     = [["redis-server", "--version"], ["redis-cli", "--version"], ["jq", "--version"]]
}
