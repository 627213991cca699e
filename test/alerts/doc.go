// Package alerts tests the alerts of config/monitoring with promtool, which make test builds.
package alerts
