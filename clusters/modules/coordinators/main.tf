# The coordinators of a cluster, and the values that other modules need. The operator's
# token is made on this machine and is neither in state nor in a plan.
terraform {
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}

resource "cadre_cluster" "this" {
  file    = "${path.module}/cluster.hcl"
  context = var.context
  variables = {
    name              = var.name
    cloud             = var.platform.cloud
    platform          = var.platform.cloud == "" ? jsonencode(var.platform) : "{}"
    api_key_env       = var.platform.api_key_env
    kms_auth_file     = lookup(var.platform, "kms_auth_file", "")
    os_image          = var.platform.os_image
    replicas          = var.replicas
    coordinator_image = var.image
  }
  deletion_protection = var.deletion_protection
}

ephemeral "cadre_operator_token" "this" {
  # Known after the coordinators are made, and not before, also where var.context is known.
  context = cadre_cluster.this.id == "" ? "" : coalesce(var.context, cadre_cluster.this.id)
}
