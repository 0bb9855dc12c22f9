// Package limit bounds how many callers are served at once, when anybody may call. It
// keeps no caller out because others sit there and do nothing: when every place is
// taken, the one that has got on least within its patience is shown out for the next
// (INP-04, INP-06).
package limit
