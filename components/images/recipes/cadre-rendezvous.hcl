image "cadre-rendezvous" {
  from        = "static"
  description = "Cadre's rendezvous: mailboxes, STUN and TURN on a public machine"
  licenses    = "Apache-2.0"

  program "cadre-rendezvous" {
    module  = "components/overlay/rendezvous"
    package = "cmd/cadre-rendezvous"
  }

  directory "var/lib/cadre-rendezvous" { mode = "0700" }
  directory "etc/cadre/roots" {}

  # It listens on port 443 of the machine's network. compose/rendezvous.yaml leaves it that
  # one capability, which an engine gives to root only.
  run_as     = "0:0"
  entrypoint = ["/usr/local/bin/cadre-rendezvous"]
  ports      = ["443/tcp", "3478/tcp", "3478/udp"]
  try        = [["/usr/local/bin/cadre-rendezvous", "--version"]]
}
