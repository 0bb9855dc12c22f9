// Package e2e_terraform applies the folders of clusters/ with OpenTofu on local clouds that
// boot images, as their READMEs say: the starter with everything that may interrupt it, the
// others (make test-clusters) through one rollout each.
package e2e_terraform
