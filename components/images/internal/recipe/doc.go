// Package recipe reads what images are made of: recipes (HCL, for people) and locks
// (lines, made by `cadre-images lock`). Both are checked in; what they do not name is in
// no image.
//
// A recipe stands on at most one other, its From. What it adds is one layer of the image.
package recipe
