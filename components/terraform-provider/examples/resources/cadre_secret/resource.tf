variable "s3_key" {
  type      = string
  sensitive = true
  ephemeral = true # in neither state nor plan files: TF_VAR_s3_key, or a terminal
}

# The spec of the group declares the secret:
#
#   secret {
#     name   = "s3-key"
#     source = "operator"
#   }
resource "cadre_secret" "s3_key" {
  group            = "web" # a text, without a reference to the group, which waits for the value
  name             = "s3-key"
  value_wo         = var.s3_key
  value_wo_version = 1 # raise it with each other value
  reason           = "new key of May"
}

# A value that is no text, such as a key store, comes from a file of this machine.
resource "cadre_secret" "keystore" {
  group            = "web"
  name             = "keystore"
  from_file        = "/run/user/1000/keystore.p12"
  value_wo_version = 1
}
