// Package provider is the Terraform provider. The coordinators and their packages decide about
// groups: compose/lint and core/group judge specs, coordinators make plans, and the provider waits
// through the same client as `cadre`.
//
//	schema, values ── shape ◄── core/group.Spec
//	validate       ── compose/lint.Refusals
//	plan           ── client.Plan, ApplyGroup (dry run) ──► coordinators
//	apply          ── client.ApplyGroup, Wait, UpdateInstance
package provider

//go:generate go run ../gendocs ../..
