// Package e2e_backup archives and backs up PostgreSQL into an S3 store that the test is, and restores
// a new group to a point in time: real pgBackRest, Patroni and PostgreSQL on a local cloud.
package e2e_backup
