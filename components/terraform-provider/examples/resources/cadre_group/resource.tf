# Three Consul servers, changed one at a time: followers first, the leader last, after it
# handed its leadership over.
resource "cadre_group" "consul" {
  name     = "consul"
  replicas = 3

  template {
    compose       = <<-EOT
      services:
        consul:
          image: docker.io/hashicorp/consul:1.22@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
          network_mode: host
    EOT
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
    disk_gb       = 20
  }

  workload {
    kind = "consul"
  }

  preserved_state {
    disk = "data"
  }

  update_policy {
    type                  = "OPPORTUNISTIC"
    max_unavailable_fixed = 1
    min_ready_seconds     = 30
  }

  lifecycle_hook {
    name              = "drain"
    transition        = "PRE_TERMINATE"
    heartbeat_timeout = "60s"
    max_duration      = "10m"
    default_result    = "HOLD"
    driver {
      do = "transfer"
    }
  }

  health_check {
    name = "ready"
    http {
      port         = 8510
      request_path = "/v1/status/leader"
    }
  }

  # A slot that fails this check, or is silent, is restarted by itself, a few times.
  auto_healing_policies {
    health_check      = "ready"
    initial_delay_sec = 60
  }

  deletion_protection = true

  timeouts {
    update = "1h"
  }
}
