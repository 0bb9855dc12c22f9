variable "name" {
  description = "Name of the cluster. It cannot change."
  type        = string
}

variable "platform" {
  description = "The output facts of the module platform."
  type        = any
}

variable "image" {
  description = "Pinned image of cadre-coordinator."
  type        = string
}

variable "replicas" {
  description = "Number of coordinators: 1, 3 or 5. It cannot change."
  type        = number
  default     = 3
}

variable "context" {
  description = "Name or path of the context file with the operator's token, which stays on this machine. Null: the cluster's name, in ~/.config/cadre."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Refuse to destroy the coordinators, and every record of the cluster with them."
  type        = bool
  default     = true
}
