// Package release tests the checks before a release: known vulnerabilities must be found.
package release
