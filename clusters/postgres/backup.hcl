# The PostgreSQL group with continuous archiving and backups in an S3 store (docs/guides/backup.md).
# Give the two secrets before or after the first apply: the members wait for them.
#   cadre secret set postgres/repo-cipher --from-file repo-cipher
#   cadre secret set postgres/s3-key --from-file s3-key
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "patroni_image" {
  description = "pinned image with Patroni and PostgreSQL"
}

variable "postgres_bin" {
  description = "folder of PostgreSQL's programs inside that image"
  default     = "/usr/lib/postgresql/15/bin"
}

variable "postgres_gid" {
  description = "group id of the postgres user inside that image; it may read the secrets"
  default     = "999"
}

variable "postgres_version" {
  description = "version of PostgreSQL in that image, or its major one: a rollout refuses another version that cannot open the disks"
  default     = "15"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

variable "replace" {
  description = "auto: a member whose CVM is gone gets another one by itself; ask: an operator replaces it"
  default     = "ask"
}

variable "heal_delay" {
  description = "seconds after a boot in which nothing that a member says of itself is healed, until it is ready"
  default     = 300
}

variable "heal_window" {
  description = "time of health after which attempts to heal are forgotten"
  default     = "1h"
}

variable "store_endpoint" {
  description = "host or host:port of the S3 store; a name of its certificate, or its common name"
  default     = "s3.example"
}

variable "store_bucket" {
  description = "bucket of the backups"
  default     = "backups"
}

variable "store_region" {
  description = "region of the bucket"
  default     = "us-east-1"
}

variable "store_ca" {
  description = "file with the authority of the store's certificate, in PEM; empty: the public ones of the image"
  default     = ""
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "postgres" {
  replicas = 3

  template {
    compose = templatefile("compose/postgres.yaml", {
      agent_image   = var.agent_image
      patroni_image = var.patroni_image
      postgres_bin  = var.postgres_bin
      postgres_gid  = var.postgres_gid
      release       = var.release
      trust         = local.trust
      backup = {
        endpoint  = var.store_endpoint
        bucket    = var.store_bucket
        region    = var.store_region
        ca_pem    = var.store_ca == "" ? "" : file(var.store_ca)
        path      = "postgres" # of this group alone
        keep_full = 2
        restore   = null
      }
    })
    env = {
      CADRE_GATEWAY_DOMAIN  = local.cloud.gateway_domain
      CADRE_GATEWAY_ADDRESS = local.cloud.gateway_address_in_cvm
      CADRE_RENDEZVOUS      = local.cloud.rendezvous_url
      CADRE_RENDEZVOUS_CA   = local.cloud.rendezvous_ca_base64
    }
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
    disk_gb       = 20
  }

  management_policy = "PARALLEL"

  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "30m" # longer than healthy_deadline and the hook
  }

  preserved_state {
    disk = "data"
  }

  workload "patroni" {
    version = var.postgres_version
  }

  # Both from the operator: a new group, or a new cluster, must be able to read the store, and
  # secrets that coordinators derive are others there. Keep a copy of repo-cipher outside.
  secret "repo-cipher" {
    source = "operator"
    owner  = "0:${var.postgres_gid}"
    mode   = "0440"
  }
  # Line 1 is the access key's id, line 2 the key.
  secret "s3-key" {
    source = "operator"
    owner  = "0:${var.postgres_gid}"
    mode   = "0440"
  }

  # A backup is waited for, as long as this; then the member goes, and the next backup resumes it.
  lifecycle_hook "backup-ended" {
    transition        = "PRE_TERMINATE"
    heartbeat_timeout = "15m"
    max_duration      = "15m"
    default_result    = "CONTINUE"
    exec {
      service = "postgres"
      command = "backup-ended"
    }
  }

  health_check "ready" {
    http {
      port         = 8008
      request_path = "/readiness"
      expect       = "200"
    }
    check_interval_sec  = 1
    timeout_sec         = 1
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # Healing restarts a hanging Patroni with its database, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "postgres"
    replace           = var.replace
    initial_delay_sec = var.heal_delay
  }
  restart_policy {
    window = var.heal_window
  }

  backend "postgres" {
    port  = 5432
    allow = ["app"]
  }
}
