variable "cloud" {
  description = "Path of the cloud.json of a local cloud. Null: Phala Cloud by the variable phala, or own hosts by the variable vmm."
  type        = string
  default     = null
}

variable "phala" {
  description = "Facts of Phala Cloud, or of a platform with its API. Null: another variable names the platform."
  type = object({
    # The environment variable with the API key, on this machine. The key itself is in no file.
    api_key_env = optional(string, "PHALA_CLOUD_API_KEY")
    api_url     = optional(string, "https://cloud-api.phala.com/api/v1")
    # Base domain of the gateway that reaches the CVMs, as in their public URLs.
    gateway_domain = string
    # The address to dial for names below it, host:port; empty resolves the names.
    gateway_address = optional(string, "")
    # The guest image of all CVMs, and its measurements: one set for each size in use.
    os_image = string
    measurements = list(object({
      mrtd  = string
      rtmr0 = string
      rtmr1 = string
      rtmr2 = string
    }))
    # The KMS that gives CVMs their keys: the key-provider event of their quotes.
    key_provider = object({ name = string, id = string })
    # Where coordinators fetch collateral for quotes: Intel's own service, or a cache of it.
    # It is signed; the address need not be trusted.
    pccs_url = optional(string, "https://api.trustedservices.intel.com")
    # A meeting place for direct paths between CVMs; without it all goes through the gateway.
    rendezvous_url       = optional(string, "")
    rendezvous_ca_base64 = optional(string, "")
  })
  default = null

  validation {
    condition     = length([for given in [var.phala == null, var.cloud == null, var.vmm == null] : given if !given]) == 1
    error_message = "Give one of cloud (a local cloud's cloud.json), phala (facts of Phala Cloud) and vmm (facts of own hosts)."
  }
}

variable "vmm" {
  description = "Facts of own hosts with dstack-vmm. Null: another variable names the platform."
  type = object({
    # The hosts by name. url_in_cvm is for coordinators inside of CVMs, where url leads nowhere from there.
    nodes = map(object({
      url        = string
      url_in_cvm = optional(string, "")
      region     = optional(string, "")
      networking = optional(string, "")
    }))
    # The environment variable with the token of the hosts, on this machine; empty: they have none.
    token_env = optional(string, "")
    # The static file of `cadre kms-auth`, if it is on this machine.
    kms_auth_file = optional(string, "")
    # Base domain of the gateway that reaches the CVMs, and the address to dial for names below it.
    gateway_domain  = string
    gateway_address = optional(string, "")
    # As for Phala Cloud.
    os_image             = string
    measurements         = list(object({ mrtd = string, rtmr0 = string, rtmr1 = string, rtmr2 = string }))
    key_provider         = object({ name = string, id = string })
    pccs_url             = optional(string, "https://api.trustedservices.intel.com")
    rendezvous_url       = optional(string, "")
    rendezvous_ca_base64 = optional(string, "")
  })
  default = null
}
