variable "images" {
  description = "Pinned reference of each image, such as registry.example/team/patroni@sha256:..."
  type = object({
    cadre-agent       = string
    cadre-coordinator = string
    patroni           = string
    load              = string
  })
}

variable "cloud" {
  description = "On a laptop: path of the local cloud's cloud.json."
  type        = string
  default     = null
}

variable "phala" {
  description = "On Phala Cloud: its facts, as modules/platform/variables.tf names them."
  type        = any
  default     = null
}

variable "vmm" {
  description = "On own hosts with dstack-vmm: their facts, as modules/platform/variables.tf names them."
  type        = any
  default     = null
}

variable "name" {
  description = "Name of the cluster. It cannot change."
  type        = string
  default     = "postgres"
}

variable "release" {
  description = "Any text. Another one makes another revision, and so a rollout."
  type        = string
  default     = "1"
}

variable "postgres_bin" {
  description = "Folder of PostgreSQL's programs inside the image."
  type        = string
  default     = "/usr/lib/postgresql/15/bin"
}

variable "postgres_gid" {
  description = "Group id of the postgres user inside the image; it may read the secrets."
  type        = string
  default     = "999"
}

variable "replace" {
  description = "`auto`: a member whose CVM is gone gets another one by itself; `ask`: an operator replaces it."
  type        = string
  default     = "ask"
}

variable "heal_delay" {
  description = "Seconds after a boot in which nothing that a member says of itself is healed, until it is ready."
  type        = number
  default     = 300
}

variable "heal_window" {
  description = "Time of health after which attempts to heal are forgotten."
  type        = string
  default     = "1h"
}

variable "coordinators" {
  description = "1, 3 or 5. It cannot change."
  type        = number
  default     = 3
}

variable "context" {
  description = "Where the operator's token is kept. Null: ~/.config/cadre/<name>.json."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Refuse to destroy the groups and the coordinators."
  type        = bool
  default     = true
}

variable "delete_disks" {
  description = "Destroying the group deletes the disks of its members, with all data."
  type        = bool
  default     = false
}

variable "postgres_version" {
  description = "Version of PostgreSQL in images.patroni, or its major one. A rollout refuses another version that cannot open the disks."
  type        = string
  default     = "15"
}

variable "backup" {
  description = "Continuous archiving and backups in an S3 store, as in backup.hcl (docs/guides/backup.md). Null: none. ca_file is the authority of a private store. The two other files have the values of the secrets repo-cipher and s3-key; for other values raise secrets_version."
  type = object({
    endpoint         = string
    bucket           = string
    region           = optional(string, "us-east-1")
    ca_file          = optional(string)
    repo_cipher_file = optional(string)
    s3_key_file      = optional(string)
    secrets_version  = optional(number, 1)
  })
  default = null
}
