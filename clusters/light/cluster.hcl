# Three coordinators for the end-to-end tests: those of the demo, whose process ends
# at the point that a test writes into a file.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "coordinator_image" {
  description = "pinned image of cadre-coordinator"
}

variable "kms_auth_file" {
  description = "on a local cloud with platform vmm and --kms-auth: static file of `cadre kms-auth`"
  default     = ""
}

locals {
  cloud = jsondecode(file(var.cloud))
}

cluster "demo" {
  platform {
    driver     = lookup(local.cloud, "platform", "phala")
    api        = local.cloud.api_url
    api_in_cvm = local.cloud.api_url_in_cvm
    # The key of a local cloud is no secret; on a real platform name an environment
    # variable with token_env.
    token         = local.cloud.api_key
    kms_auth_file = var.kms_auth_file
  }

  gateway {
    domain  = local.cloud.gateway_domain
    address = local.cloud.gateway_address
  }

  coordinator {
    replicas      = 3
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
    disk_gb       = 20

    # Another command line is another measured revision: no production coordinator has this.
    compose = replace(templatefile("../../compose/coordinator.yaml", {
      coordinator_image = var.coordinator_image
      cluster           = cadre.cluster
      replicas          = 3
      trust             = cadre.trust_json
    }), "- --replicas=3\n", "- --replicas=3\n      - --failpoint-file=/run/cadre/failpoint\n")

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
    # The local cloud signs quotes with its own CA. This is another root of trust,
    # not a mode: only a measured file that names it accepts it.
    roots_pem       = file(local.cloud.root_pem_file)
    allow_simulated = true
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
