# The facts of the platform in one object, whichever it is, by the names of a local cloud's
# cloud.json. The platform's key is not among them.
locals {
  names = [
    "platform", "api_url", "api_url_in_cvm", "gateway_domain", "gateway_address", "gateway_address_in_cvm", "gateway_ca_file",
    "images", "key_provider", "root_pem", "pccs_url_in_cvm", "rendezvous_url", "rendezvous_ca_base64",
  ]

  here = [for path in compact([var.cloud]) : merge(
    { for name, value in jsondecode(file(path)) : name => value if contains(local.names, name) },
    # A local cloud's key is no secret; the coordinators' file reads it where it stands.
    { cloud = abspath(path), api_key_env = "", os_image = "dstack-0.5.7" },
  )]

  phala = [for p in var.phala[*] : {
    cloud                  = ""
    api_key_env            = p.api_key_env
    api_url                = p.api_url
    api_url_in_cvm         = p.api_url
    gateway_domain         = p.gateway_domain
    gateway_address        = p.gateway_address
    gateway_address_in_cvm = p.gateway_address
    os_image               = p.os_image
    images                 = { (p.os_image) = p.measurements }
    key_provider           = p.key_provider
    pccs_url_in_cvm        = p.pccs_url
    rendezvous_url         = p.rendezvous_url
    rendezvous_ca_base64   = p.rendezvous_ca_base64
  }]

  # The text by which the driver finds the hosts, from this machine and from inside of a CVM.
  hosts = { for way in ["url", "url_in_cvm"] : way => [for v in var.vmm[*] : "vmm:${join(",", [
    for name, n in v.nodes : join("", [
      name, n.region == "" ? "" : "@${n.region}", "=", way == "url" || n.url_in_cvm == "" ? n.url : n.url_in_cvm,
      n.networking == "" ? "" : "?networking=${n.networking}",
    ])
  ])}"] }

  vmm = [for i, v in var.vmm[*] : {
    cloud                  = ""
    platform               = "vmm"
    api_key_env            = v.token_env
    api_url                = local.hosts["url"][i]
    api_url_in_cvm         = local.hosts["url_in_cvm"][i]
    kms_auth_file          = v.kms_auth_file
    gateway_domain         = v.gateway_domain
    gateway_address        = v.gateway_address
    gateway_address_in_cvm = v.gateway_address
    os_image               = v.os_image
    images                 = { (v.os_image) = v.measurements }
    key_provider           = v.key_provider
    pccs_url_in_cvm        = v.pccs_url
    rendezvous_url         = v.rendezvous_url
    rendezvous_ca_base64   = v.rendezvous_ca_base64
  }]

  facts = concat(local.here, local.phala, local.vmm)[0]
}
