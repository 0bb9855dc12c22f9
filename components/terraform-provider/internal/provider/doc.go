// Package provider is the Terraform provider. It decides nothing about groups itself: specs
// are judged by compose/lint and core/group, plans are the coordinators' own, and what is
// waited for is what `cadre` waits for, through the same client.
//
//	schema, values ── shape ◄── core/group.Spec
//	validate       ── compose/lint.Refusals
//	plan           ── client.Plan, ApplyGroup (dry run) ──► coordinators
//	apply          ── client.ApplyGroup, Wait, UpdateInstance
package provider

//go:generate go run ../gendocs ../..
