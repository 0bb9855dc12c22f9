// Package deployment is several groups as one versioned document. The specs of the groups stay the one
// desired state that the leader obeys: a version records which specs one call wrote together.
package deployment
