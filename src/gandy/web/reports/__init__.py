"""Routes and pages that answer a question over all manifests, jobs and operators."""
