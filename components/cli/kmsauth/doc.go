// Package kmsauth answers the authorisation webhook of dstack's key service (`[core.auth_api.webhook]`
// of its kms.toml). The key service asks before it gives a boot the keys of its app and of its disk:
//
//	dstack-kms ── POST /bootAuth/app, /bootAuth/kms ──► Server ─┬─► File: OS images, key services, gateway, coordinators
//	                                                            └─► the coordinators: every other app (policy/slots)
//
// The coordinators' own app is in the File, because no coordinator answers before the first one has
// booted. The File has the keys of auth-simple's configuration, and is read again at each request.
// Every failure denies, with its reason.
package kmsauth
