# What static programs need of a system, and all that images without a shell have.
layer "static" {
  description = "accounts, certificates, names; no program"
  debs        = ["base-files", "ca-certificates"]
  alone       = true
  ca_bundle   = true

  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/doc/base-files/README*", "usr/share/doc/base-files/FAQ*",
    "usr/share/base-files/**", "usr/share/doc/ca-certificates/README.Debian", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*",
    "usr/share/doc/ca-certificates/examples/**", "usr/sbin/update-ca-certificates", "etc/update-motd.d/**", "etc/issue*", "etc/dpkg/**",
    "usr/lib/systemd/**", "lib/systemd/**", "usr/share/dict/**", "usr/share/misc/**", "usr/share/pixmaps/**", "usr/share/icons/**", "usr/games/**",
  ]

  user "root" {
    id   = 0
    home = "/root"
  }
  user "nobody" {
    id = 65534
  }

  directory "dev" {}
  directory "proc" {}
  directory "sys" {}
  directory "etc/cadre" {}
  directory "run" {}
  directory "run/cadre" { mode = "0700" }
  directory "run/mesh" {}
  directory "root" { mode = "0700" }
  directory "tmp" { mode = "1777" }
  directory "var/tmp" { mode = "1777" }

  # Files that runners mount their own over, also on a read-only root. Without a runner
  # that does, localhost still has its address: without one Patroni never leads.
  file "etc/hosts" {
    content = <<-END
      127.0.0.1 localhost
      ::1 localhost ip6-localhost ip6-loopback
    END
  }
  file "etc/hostname" { content = "" }
  file "etc/resolv.conf" { content = "" }
  file "etc/nsswitch.conf" {
    content = <<-END
      passwd: files
      group: files
      hosts: files dns
      networks: files
      protocols: files
      services: files
    END
  }

  # A merged /usr, and /run in its one place.
  link "bin" { target = "usr/bin" }
  link "sbin" { target = "usr/sbin" }
  link "lib" { target = "usr/lib" }
  link "lib64" { target = "usr/lib64" }
  link "var/run" { target = "/run" }
  link "var/lock" { target = "/run/lock" }
}
