# The coordinators of any cluster, for Terraform and for the command line alike:
#
#   cadre cluster create --var name=demo --var cloud=.../cloud.json \
#       --var coordinator_image=...@sha256:... clusters/modules/coordinators/cluster.hcl
#
# cadre.* are facts that exist only while the cluster is made.
variable "name" {
  description = "name of the cluster"
}

variable "coordinator_image" {
  description = "pinned image of cadre-coordinator"
}

variable "cloud" {
  description = "path of a local cloud's cloud.json; empty: the platform is described by the variable platform"
  default     = ""
}

variable "platform" {
  description = "facts of another platform as JSON, by the names of cloud.json: the output facts of the module platform"
  default     = "{}"
}

variable "api_key_env" {
  description = "environment variable with the platform's key; empty: a local cloud's key, which is no secret and stands in its cloud.json"
  default     = ""
}

variable "kms_auth_file" {
  description = "on hosts with dstack-vmm: static file of `cadre kms-auth`, to which the coordinators are added before they boot; empty: another hand adds them"
  default     = ""
}

variable "replicas" {
  description = "number of coordinators: 1, 3 or 5"
  default     = "3"
}

variable "os_image" {
  description = "guest image of the coordinators"
  default     = "dstack-0.5.7"
}

variable "instance_type" {
  description = "the platform's size"
  default     = "tdx.small"
}

locals {
  cloud = jsondecode(var.cloud != "" ? file(var.cloud) : var.platform)
}

cluster "cadre" {
  name = var.name

  platform {
    driver        = lookup(local.cloud, "platform", "phala")
    api           = local.cloud.api_url
    api_in_cvm    = local.cloud.api_url_in_cvm
    token_env     = var.api_key_env
    token         = var.api_key_env == "" ? lookup(local.cloud, "api_key", "") : ""
    kms_auth_file = var.kms_auth_file
  }

  gateway {
    domain  = local.cloud.gateway_domain
    address = local.cloud.gateway_address
  }

  coordinator {
    replicas      = var.replicas
    instance_type = var.instance_type
    os_image      = var.os_image
    disk_gb       = 20

    compose = templatefile("../../../compose/coordinator.yaml", {
      coordinator_image = var.coordinator_image
      cluster           = cadre.cluster
      replicas          = var.replicas
      trust             = cadre.trust_json
    })

    env = {
      CADRE_GATEWAY_DOMAIN   = local.cloud.gateway_domain
      CADRE_GATEWAY_ADDRESS  = local.cloud.gateway_address_in_cvm
      CADRE_RENDEZVOUS       = local.cloud.rendezvous_url
      CADRE_RENDEZVOUS_CA    = local.cloud.rendezvous_ca_base64
      CADRE_PLATFORM_API     = cadre.platform_api
      CADRE_PLATFORM_API_KEY = cadre.platform_api_key
    }
  }

  trust {
    # A real platform has only Intel's roots.
    roots_pem       = lookup(local.cloud, "root_pem", "")
    allow_simulated = lookup(local.cloud, "root_pem", "") != ""
    key_provider    = local.cloud.key_provider
    images          = local.cloud.images
    # Where coordinators learn which machines are patched and which are revoked. The
    # same root signs it, so the address need not be trusted.
    collateral = { pccs_url = local.cloud.pccs_url_in_cvm }
    # Intel asks for a new firmware level about a year after it is published. These days
    # leave 60 more to update the hosts; without them that day ends the cluster.
    tcb {
      grace_days = 425
    }
  }
}
