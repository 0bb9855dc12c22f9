// Package platform is the seam to the API that makes and unmakes CVMs. The
// rollout controller owns the contract; drivers implement it (phala here), and
// one contract suite (platformtest) runs on every driver.
package platform
