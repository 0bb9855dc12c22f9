# Three PostgreSQL members under Patroni, and an application that writes: the specs of
# postgres.hcl and app.hcl, which `make demo` applies.
terraform {
  required_version = ">= 1.11"
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}

# Makes the coordinators; needs no cluster.
provider "cadre" {
  alias = "founder"
}

# Talks to them.
provider "cadre" {
  context_json = module.coordinators.context_json
  token        = module.coordinators.token
}

module "platform" {
  source = "../modules/platform"
  cloud  = var.cloud
  phala  = var.phala
  vmm    = var.vmm
}

module "coordinators" {
  source              = "../modules/coordinators"
  providers           = { cadre = cadre.founder }
  name                = var.name
  context             = var.context
  platform            = module.platform.facts
  image               = var.images.cadre-coordinator
  replicas            = var.coordinators
  deletion_protection = var.deletion_protection
}

resource "cadre_group" "postgres" {
  name                = "postgres"
  platform            = module.platform.driver
  replicas            = 3
  deletion_protection = var.deletion_protection
  management_policy   = "PARALLEL"

  template {
    compose = templatefile("compose/postgres.yaml", {
      agent_image   = var.images.cadre-agent
      patroni_image = var.images.patroni
      postgres_bin  = var.postgres_bin
      postgres_gid  = var.postgres_gid
      release       = var.release
      trust         = module.coordinators.trust
      backup = var.backup == null ? null : {
        endpoint  = var.backup.endpoint
        bucket    = var.backup.bucket
        region    = var.backup.region
        ca_pem    = var.backup.ca_file == null ? "" : file(var.backup.ca_file)
        path      = "postgres" # of this group alone
        keep_full = 2
        restore   = null # restored.hcl restores into a new group
      }
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
    disk_gb       = 20
  }

  # Replicas first, the leader last, after one hand-over to a member that runs the new revision.
  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = var.backup == null ? "20m" : "30m" # longer than healthy_deadline and the hook
  }

  # The driver knows roles, lag, and how leadership is handed over.
  workload {
    kind     = "patroni"
    settings = { version = var.postgres_version }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  # Both from the operator: a new group, or a new cluster, must be able to read the store.
  dynamic "secret" {
    for_each = var.backup == null ? [] : ["repo-cipher", "s3-key"]
    content {
      name   = secret.value
      source = "operator"
      owner  = "0:${var.postgres_gid}"
      mode   = "0440"
    }
  }

  # A backup is waited for, as long as this; then the member goes, and the next backup resumes it.
  dynamic "lifecycle_hook" {
    for_each = var.backup == null ? [] : ["backup-ended"]
    content {
      name              = lifecycle_hook.value
      transition        = "PRE_TERMINATE"
      heartbeat_timeout = "15m"
      max_duration      = "15m"
      default_result    = "CONTINUE"
      exec {
        service = "postgres"
        command = "backup-ended"
      }
    }
  }

  health_check {
    name = "ready"
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

  backend {
    name  = "postgres"
    port  = 5432
    allow = ["app"]
  }
}

# The values of both secrets, from files of this machine. Without files, `cadre secret set` gives them.
resource "cadre_secret" "backup" {
  for_each = { for name, file in {
    repo-cipher = try(var.backup.repo_cipher_file, null)
    s3-key      = try(var.backup.s3_key_file, null)
  } : name => file if file != null }
  group            = "postgres" # a text: the group waits for the values
  name             = each.key
  from_file        = each.value
  value_wo_version = var.backup.secrets_version
}

# An application in a CVM of its own, which writes and measures.
resource "cadre_group" "app" {
  name                = "app"
  platform            = module.platform.driver
  replicas            = 1
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/load.yaml", {
      agent_image = var.images.cadre-agent
      load_image  = var.images.load
      trust       = module.coordinators.trust
      dsn         = "postgres://app@postgres-0,postgres-1,postgres-2/app?target_session_attrs=read-write&sslmode=disable&connect_timeout=2"
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  update_policy {
    min_ready_seconds = 1
  }
}
