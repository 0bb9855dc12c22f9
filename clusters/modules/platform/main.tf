# The facts of the platform in one object, whichever it is, by the names of a local cloud's
# cloud.json. The platform's key is not among them.
locals {
  names = [
    "api_url", "api_url_in_cvm", "gateway_domain", "gateway_address", "gateway_address_in_cvm", "gateway_ca_file",
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

  facts = concat(local.here, local.phala)[0]
}
