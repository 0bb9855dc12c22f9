variable "images" {
  description = "Pinned reference of each image, such as registry.example/team/webdemo@sha256:..."
  type = object({
    cadre-agent       = string
    cadre-coordinator = string
    webdemo           = string
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
  default     = "starter"
}

variable "release" {
  description = "Any text, which every answer shows. Another one makes another revision, and so a rollout."
  type        = string
  default     = "1"
}

variable "api_replicas" {
  type    = number
  default = 2
}

variable "worker_replicas" {
  type    = number
  default = 5
}

variable "worker_updates" {
  description = "PROACTIVE: a new revision rolls at once. OPPORTUNISTIC: each worker takes it when its cadre_instance is applied."
  type        = string
  default     = "PROACTIVE"
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
