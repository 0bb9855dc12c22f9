image "patroni" {
  from        = "python"
  description = "PostgreSQL 15 under Patroni"
  licenses    = "PostgreSQL AND MIT"

  # pgBackRest archives and restores; without its settings it does nothing.
  debs = ["pgbackrest", "postgresql-15", "tzdata"]

  # All that it requires but ydiff, which comes without a wheel.
  wheels = [
    "patroni==4.1.5", "psycopg==3.2.12", "psycopg-binary==3.2.12", "typing-extensions==4.16.0", "urllib3==2.8.0", "pyyaml==6.0.3",
    "py-consul==1.8.0", "requests==2.34.2", "certifi==2026.10.18", "charset-normalizer==3.5.2", "idna==3.20", "click==8.5.1",
    "prettytable==3.18.0", "wcwidth==0.9.4", "python-dateutil==4.0.0", "psutil==7.2.2",
  ]

  # PostgreSQL's scripts for several clusters on one machine, which are Perl; LLVM, which is
  # larger than all the rest and compiles queries that run for seconds; maintainer scripts.
  exclude = [
    "adduser", "debconf", "dpkg", "init-system-helpers", "libbsd0", "libc-l10n",
    "libcrypt1", "libdb5.3", "libedit2", "libfile-find-rule-perl", "libgdbm-compat4", "libgdbm6", "libjson-perl", "libllvm14", "libmd0",
    "libnumber-compare-perl", "libpam-modules", "libpam-modules-bin", "libperl5.36", "libsemanage-common", "libsemanage2", "libsepol2",
    "libtext-glob-perl", "libz3-4", "locales", "lsb-base", "netbase", "openssl", "passwd", "perl", "perl-base",
    "perl-modules-5.36", "postgresql-client-common", "postgresql-common", "readline-common", "sensible-utils", "ssl-cert", "sysvinit-utils",
    "tar", "ucf", "usrmerge",
  ]
  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/postgresql/15/man/**", "usr/share/bug/**",
    "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/doc/*/HISTORY*",
    "usr/share/doc/*/examples/**", "usr/share/doc-base/**", "usr/lib/postgresql/15/lib/bitcode/**", "usr/lib/postgresql/15/lib/llvmjit*",
    "usr/share/zoneinfo/right/**", "usr/share/zoneinfo/posix/**", "usr/share/postgresql-common/**", "etc/pam.d/**", "etc/init.d/**", "lib/systemd/**", "etc/logrotate.d/**",
  ]
  bytecode = ["usr/local/lib/python3.11/dist-packages"]

  # What patronictl takes where ydiff is not there. It shows changes as they are.
  file "usr/local/lib/python3.11/dist-packages/cdiff.py" {
    content = <<-END
      import sys

      PatchStream = iter


      def markup_to_pager(stream, options):
          for line in stream:
              sys.stdout.write(line.decode())
    END
  }

  # Patroni, which ends a planned hand-over as soon as that is safe (docs/explanation/failover.md).
  file "usr/local/bin/cadre-patroni" {
    mode    = "0755"
    content = <<-END
      #!/usr/bin/python3
      """Patroni without the time that it only waits in a planned hand-over.

      Takes patroni's arguments. A version of Patroni that is not in KNOWN runs as it is, and
      so does any with CADRE_PATRONI=stock in the environment.
      """
      import os
      import sys
      import threading
      import time

      import patroni.version
      from patroni.__main__ import main

      KNOWN = ("4.1.5",)


      def see_the_end_at_once():
          """Sees the end of PostgreSQL when it comes; Patroni looks once a second.

          It ends only when each replica that is connected has confirmed all WAL, the
          checkpoint of the shutdown too, and nobody is sent more after that.
          """
          import patroni.postgresql
          from patroni.postgresql.postmaster import PostmasterProcess

          stock = PostmasterProcess.signal_stop

          def signal_stop(self, mode, pg_ctl="pg_ctl"):
              gone = stock(self, mode, pg_ctl)
              end = time.monotonic() + 0.3
              # None: it was told to end. True: it is gone, and so is its entry in /proc.
              while gone is None and mode == "fast" and time.monotonic() < end:
                  if not self.is_running():
                      return True
                  time.sleep(0.01)
              return gone

          PostmasterProcess.signal_stop = signal_stop
          # What takes longer: each time is one run of pg_controldata.
          patroni.postgresql.STOP_POLLING_INTERVAL = 0.1


      class Clock:
          """The module time for patroni.ha, where a demotion sleeps until it need not."""

          demoting = threading.local()

          def __getattr__(self, name):
              return getattr(time, name)

          def sleep(self, seconds):
              ha = getattr(self.demoting, "ha", None)
              if ha is None or seconds != 1:
                  return time.sleep(seconds)
              # PostgreSQL has shut down and is still there, to archive WAL for example.
              # Replicas are given this second to receive all, and are then asked whether
              # one that may lead has: asked at once and again, it is over when one has.
              end = time.monotonic() + seconds
              lsn, _ = ha.state_handler.latest_checkpoint_locations()
              while time.monotonic() < end:
                  # More than where the last record, the checkpoint, begins.
                  if lsn and ha.is_failover_possible(cluster_lsn=lsn + 1):
                      return None
                  time.sleep(0.05)


      def demote_without_waiting():
          import patroni.ha

          stock = patroni.ha.Ha.demote

          def demote(self, mode):
              own = vars(self._rewind)

              def get_archive_command():
                  own.pop("get_archive_command", None)  # who asks next is answered

              # Each demotion starts two programs to ask how WAL is archived. Only that into a
              # standby cluster reads the answer.
              if mode != "demote-cluster":
                  own["get_archive_command"] = get_archive_command
              if mode == "graceful":
                  Clock.demoting.ha = self
              try:
                  return stock(self, mode)
              finally:
                  own.pop("get_archive_command", None)
                  Clock.demoting.ha = None

          patroni.ha.Ha.demote = demote
          patroni.ha.time = Clock()


      def checkpoint_on_request():
          """Adds POST /checkpoint, for who may call POST /switchover.

          Made before clients are held, it leaves little for Patroni's own CHECKPOINT and for
          that of the shutdown, which come while they wait.
          """
          from patroni.api import RestApiHandler, check_access

          @check_access
          def do_POST_checkpoint(self):
              failed = self.server.patroni.postgresql.checkpoint()
              self.write_response(503 if failed else 200, failed or "checkpoint done")

          RestApiHandler.do_POST_checkpoint = do_POST_checkpoint


      # Patroni starts PostgreSQL by a process that imports this file again.
      if __name__ == "__main__":
          version = patroni.version.__version__
          if os.environ.get("CADRE_PATRONI") == "stock":
              pass
          elif version in KNOWN:
              see_the_end_at_once()
              demote_without_waiting()
              checkpoint_on_request()
          else:
              print("cadre-patroni: WARNING: Patroni", version, "runs as it is: only", *KNOWN, "is known",
                    file=sys.stderr, flush=True)
          sys.exit(main())
    END
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
  command = ["cadre-patroni"]
  ports   = ["5432/tcp", "8008/tcp"]
  try = [["sh", "-c", <<-END
    set -eu
    patroni --version
    cadre-patroni --version
    patronictl --help >/tmp/help
    python3 -c 'import psycopg, consul, yaml, psutil; print("psycopg", psycopg.pq.__impl__)'
    initdb -D /tmp/data -A trust >/tmp/initdb
    echo 'SELECT version()' | postgres --single -D /tmp/data postgres | grep -o 'PostgreSQL 15[.0-9]*'
  END
  ]]
}
